//! Runs one attempt: its command in a sandbox of its own, then what it changed, then the checks.

use whatif_diff::pattern::Patterns;
use whatif_keeper::protocol::{Exited, Failed, Reason};
use whatif_store::StoreError;
use whatif_types::experiment::{AttemptPlan, Ended, Event, Kind, Outcome, Verdict};
use whatif_types::explain::{EXIT_CANNOT_EXECUTE, EXIT_FAILED, EXIT_NOT_FOUND, whole_message};
use whatif_types::text::Text;
use whatif_types::{MadeBy, NetMode, Sandbox, SandboxId};

use super::measure;
use super::output::Tail;
use super::run::Racing;
use super::setup::Begin;
use crate::captured::{Heard, Pipes};
use crate::network::Troubles;
use crate::shift::Live;
use crate::{CommandSpec, Engine, EngineError, Finished, Keep, NewSandbox, Run};

/// So many paths are named in a sentence.
const MOST_NAMED: usize = 5;

/// An attempt that came to an end, and what holds its changes.
pub(super) struct Tried {
    pub outcome: Outcome,
    pub sandbox: Option<SandboxId>,
}

/// A command that a race runs in a sandbox of its own.
pub(super) struct Command {
    /// The name of the sandbox.
    pub sandbox: String,
    pub arguments: Vec<Text>,
    pub input: Option<Text>,
    pub variables: Vec<String>,
    pub heard: Heard,
}

impl Engine {
    /// To its end, whatever that is. `None` if it was stopped.
    pub(super) fn attempt(&self, racing: &Racing, number: usize, tell: &dyn Fn(Event)) -> Option<Tried> {
        let plan = &racing.plan.attempts[number];
        if plan.kind == Kind::Merge {
            let because = "what was put together cannot be run again; merge it anew".to_owned();
            return Some(Tried { outcome: Outcome::without_result(Verdict::Broken(because)), sandbox: None });
        }
        let finished = match self.try_it(racing, number, tell) {
            Ok(Some(finished)) => finished,
            Ok(None) => return None,
            // What is not there, or is no program, is the attempt's fault.
            Err(EngineError::Command(failed)) => {
                let outcome = Outcome { ended: Some(never_begun(&failed)), ..Outcome::without_result(Verdict::Failed) };
                return Some(Tried { outcome, sandbox: None });
            }
            Err(error) => return Some(Tried { outcome: broken(&error), sandbox: None }),
        };
        let sandbox = Some(finished.1.sandbox.id.clone());
        // If it was stopped, its sandbox is one that nobody knows of, and goes with all such.
        let outcome = self.judge_attempt(racing, plan, finished, tell).unwrap_or_else(|error| Some(broken(&error)))?;
        Some(Tried { outcome, sandbox })
    }

    /// Its own command.
    fn try_it(&self, racing: &Racing, number: usize, tell: &dyn Fn(Event)) -> Result<Option<(Ended, Finished, bool)>, EngineError> {
        let plan = &racing.plan.attempts[number];
        let command = Command {
            sandbox: format!("{}.{}", racing.name, plan.name),
            arguments: plan.arguments.clone(),
            input: plan.input.clone(),
            variables: variables(racing, plan),
            heard: Heard::Both,
        };
        let mut tail = Tail::default();
        let mut began = |sandbox: &str| tell(Event::AttemptBegan { attempt: plan.name.clone(), sandbox: sandbox.to_owned() });
        let ran = self.run_in_race(racing, &command, &mut began, &mut |piece| tail.feed(piece))?;
        let Some((run, exited)) = ran else { return Ok(None) };
        let missed_network = exited.missed_network && run.sandbox.details.net == NetMode::None;
        let finished = self.finish(run, &exited, Keep::Stopped)?;
        Ok(Some((how_it_ended(&exited, &tail), finished, missed_network)))
    }

    /// Runs a command in a new sandbox of the race until it ends. `None` if it was stopped; then nothing is left of it.
    pub(super) fn run_in_race(
        &self,
        racing: &Racing,
        command: &Command,
        began: &mut dyn FnMut(&str),
        sink: &mut dyn FnMut(&[u8]),
    ) -> Result<Option<(Run, Exited)>, EngineError> {
        let mut new = NewSandbox { name: Some(command.sandbox.clone()), ..racing.wish.clone() };
        if let Some(begin) = &racing.begin {
            new = begin.fitting(new);
        }
        let pipes = Pipes::new(command.input.as_ref().map(Text::as_bytes), command.heard)?;
        let spec = CommandSpec {
            arguments: command.arguments.iter().map(Text::to_os).collect(),
            env: command.variables.clone(),
            cwd: None,
            stdio: pipes.stdio(),
            terminal: None,
            timeout: None,
        };
        let start = racing.begin.as_ref().map(Begin::start);
        let mut run = match self.run_from(start.as_ref(), &new, &spec, &pipes.descriptors()) {
            // Somebody has a sandbox of that name; any other will do.
            Err(EngineError::Store(StoreError::NameTaken { .. }) | EngineError::Name(_)) => {
                self.run_from(start.as_ref(), &NewSandbox { name: None, ..new }, &spec, &pipes.descriptors())
            }
            other => other,
        }?;
        began(&run.sandbox.name);
        let stop = racing.stop.as_fd();
        let watched = self.watch(&run.sandbox, run.running.client(), pipes, Some(stop), sink);
        match watched {
            Ok(Some(exited)) => Ok(Some((run, exited))),
            Ok(None) => self.abandon(run).map(|()| None),
            Err(error) => {
                self.abandon(run)?;
                Err(error)
            }
        }
    }

    /// What it changed, and whether that passes.
    fn judge_attempt(
        &self,
        racing: &Racing,
        plan: &AttemptPlan,
        (ended, finished, missed_network): (Ended, Finished, bool),
        tell: &dyn Fn(Event),
    ) -> Result<Option<Outcome>, EngineError> {
        let mut outcome = Outcome::without_result(Verdict::Failed);
        outcome.denied = denied(&finished.network);
        if missed_network {
            outcome.remarks.push("it tried to reach a network and had none".to_owned());
        }
        let has_failed = !ended.is_success();
        outcome.ended = Some(ended);
        self.judge_changes(racing, plan, &finished.sandbox, outcome, has_failed, tell)
    }

    /// The same for a sandbox that holds the changes already.
    pub(super) fn judge_changes(
        &self,
        racing: &Racing,
        plan: &AttemptPlan,
        sandbox: &Sandbox,
        mut outcome: Outcome,
        has_failed: bool,
        tell: &dyn Fn(Event),
    ) -> Result<Option<Outcome>, EngineError> {
        let (changes, paths) = self.measure_changes(sandbox, racing.begin.as_ref())?;
        outcome.changes = changes;
        measure::note_own(&mut outcome);
        if has_failed {
            return Ok(Some(outcome));
        }
        let protected = Patterns::new(&racing.plan.protect, &[&sandbox.project])?;
        let touched: Vec<String> = paths.iter().filter(|p| protected.matches(p)).map(|p| shown(p, sandbox)).collect();
        if !touched.is_empty() {
            outcome.verdict = Verdict::Forbidden(some_of(&touched));
            return Ok(Some(outcome));
        }
        if !racing.plan.checks.is_empty() {
            let (sandbox, snapshot) = self.named_position(sandbox, MadeBy::Fork, Live::Refuse)?;
            let begin = Begin { sandbox, snapshot };
            if !self.run_trials(racing, plan, &begin, &mut outcome, tell)? {
                return Ok(None);
            }
        }
        let passes = outcome.checks.iter().all(|check| !check.required || check.has_passed());
        outcome.verdict = if passes { Verdict::Passed } else { Verdict::FailedChecks };
        Ok(Some(outcome))
    }
}

pub(super) fn broken(error: &EngineError) -> Outcome {
    Outcome::without_result(Verdict::Broken(whole_message(error)))
}

/// Hosts and ports that were refused.
pub(super) fn denied(network: &Troubles) -> Vec<String> {
    let name = |host: &str, port: Option<u16>| port.map_or(host.to_owned(), |port| format!("{host}:{port}"));
    network.denied.iter().map(|denied| name(&denied.host, denied.port)).collect()
}

/// A command that could not be started, as a shell would tell it.
pub(super) fn never_begun(failed: &Failed) -> Ended {
    let exit_code = match failed.reason {
        Reason::NotFound => EXIT_NOT_FOUND,
        Reason::CannotExecute => EXIT_CANNOT_EXECUTE,
        _ => EXIT_FAILED,
    };
    Ended { exit_code: exit_code.into(), tail: failed.message.clone(), ..Ended::default() }
}

pub(super) fn how_it_ended(exited: &Exited, tail: &Tail) -> Ended {
    Ended {
        exit_code: exited.code,
        timed_out: exited.timed_out,
        limit_hit: exited.limit_hit,
        usage: exited.usage,
        tail: tail.text(),
    }
}

/// Variables of every command of an attempt.
pub(super) fn variables(racing: &Racing, plan: &AttemptPlan) -> Vec<String> {
    let own = [("WHATIF_RACE", &racing.name), ("WHATIF_ATTEMPT", &plan.name)].map(|(name, value)| format!("{name}={value}"));
    own.into_iter().chain(plan.parameters.iter().map(|(name, value)| format!("{name}={value}"))).collect()
}

fn some_of(names: &[String]) -> String {
    let more = names.len().saturating_sub(MOST_NAMED);
    let named = names[..names.len() - more].join(", ");
    if more == 0 { named } else { format!("{named} and {more} more") }
}

fn shown(path: &std::path::Path, sandbox: &Sandbox) -> String {
    path.strip_prefix(&sandbox.project).unwrap_or(path).display().to_string()
}
