//! Runs one attempt: its command in a sandbox of its own, then what it changed, then the checks.

use std::path::{Path, PathBuf};

use whatif_diff::pattern::Patterns;
use whatif_types::experiment::{AttemptPlan, Ended, Event, Kind, Outcome, Verdict};
use whatif_types::explain::whole_message;
use whatif_types::{MadeBy, NetMode, Sandbox, SandboxId};

use super::command::{Command, how_it_ended, never_begun, variables};
use super::measure;
use super::output::Tail;
use super::run::Racing;
use super::setup::Begin;
use crate::captured::Heard;
use crate::network::Troubles;
use crate::shift::Live;
use crate::{Engine, EngineError, Keep};

/// So many paths are named in a sentence.
const MOST_NAMED: usize = 5;

/// An attempt that came to an end, and what holds its changes.
pub(super) struct Tried {
    pub outcome: Outcome,
    pub sandbox: Option<SandboxId>,
}

/// An attempt whose own command has ended.
struct Done {
    ended: Ended,
    sandbox: Sandbox,
    network: Troubles,
    missed_network: bool,
}

impl Engine {
    /// To its end, whatever that is. `None` if it was stopped.
    pub(super) fn attempt(&self, racing: &Racing, number: usize, tell: &dyn Fn(Event)) -> Option<Tried> {
        let plan = &racing.plan.attempts[number];
        if plan.kind == Kind::Merge {
            let because = "what was put together cannot be run again; merge it anew".to_owned();
            return Some(Tried::without_sandbox(Outcome::without_result(Verdict::Broken(because))));
        }
        let done = match self.try_it(racing, plan, tell) {
            Ok(done) => done?,
            // What is not there, or is no program, is the attempt's fault.
            Err(EngineError::Command(failed)) => {
                let failed = Outcome { ended: Some(never_begun(&failed)), ..Outcome::without_result(Verdict::Failed) };
                return Some(Tried::without_sandbox(failed));
            }
            Err(error) => return Some(Tried::without_sandbox(broken(&error))),
        };
        let sandbox = Some(done.sandbox.id.clone());
        // If it was stopped, its sandbox is one that nobody knows of, and goes with all such.
        let outcome = self.judge_attempt(racing, plan, done, tell).unwrap_or_else(|error| Some(broken(&error)))?;
        Some(Tried { outcome, sandbox })
    }

    /// Its own command.
    fn try_it(&self, racing: &Racing, plan: &AttemptPlan, tell: &dyn Fn(Event)) -> Result<Option<Done>, EngineError> {
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
        let ended = how_it_ended(&exited, &tail);
        Ok(Some(Done { ended, sandbox: finished.sandbox, network: finished.network, missed_network }))
    }

    /// Whoever failed by itself is not checked, but what it changed can be looked at.
    fn judge_attempt(
        &self,
        racing: &Racing,
        plan: &AttemptPlan,
        done: Done,
        tell: &dyn Fn(Event),
    ) -> Result<Option<Outcome>, EngineError> {
        let Done { ended, sandbox, network, missed_network } = done;
        let mut outcome = Outcome::without_result(Verdict::Failed);
        outcome.denied = denied(&network);
        if missed_network {
            outcome.remarks.push("it tried to reach a network and had none".to_owned());
        }
        let is_success = ended.is_success();
        outcome.ended = Some(ended);
        if !is_success {
            self.add_changes(racing, &sandbox, &mut outcome)?;
            return Ok(Some(outcome));
        }
        self.judge_changes(racing, plan, &sandbox, outcome, tell)
    }

    /// Whether what a sandbox holds passes. `None` if it was stopped.
    pub(super) fn judge_changes(
        &self,
        racing: &Racing,
        plan: &AttemptPlan,
        sandbox: &Sandbox,
        mut outcome: Outcome,
        tell: &dyn Fn(Event),
    ) -> Result<Option<Outcome>, EngineError> {
        let paths = self.add_changes(racing, sandbox, &mut outcome)?;
        let protected = Patterns::new(&racing.plan.protect, &[&sandbox.project])?;
        let touched: Vec<String> = paths.iter().filter(|p| protected.matches(p)).map(|p| shown(p, sandbox)).collect();
        if !touched.is_empty() {
            outcome.verdict = Verdict::Forbidden(some_of(&touched));
            return Ok(Some(outcome));
        }
        if !racing.plan.checks.is_empty() {
            let (sandbox, snapshot) = self.named_position(sandbox, MadeBy::Fork, Live::Refuse)?;
            if !self.run_trials(racing, plan, &Begin { sandbox, snapshot }, &mut outcome, tell)? {
                return Ok(None);
            }
        }
        let passes = outcome.checks.iter().all(|check| !check.required || check.has_passed());
        outcome.verdict = if passes { Verdict::Passed } else { Verdict::FailedChecks };
        Ok(Some(outcome))
    }

    /// Returns the paths of everything it changed.
    fn add_changes(&self, racing: &Racing, sandbox: &Sandbox, outcome: &mut Outcome) -> Result<Vec<PathBuf>, EngineError> {
        let (changes, paths) = self.measure_changes(sandbox, racing.begin.as_ref())?;
        outcome.changes = changes;
        measure::note_own(outcome);
        Ok(paths)
    }
}

impl Tried {
    pub fn without_sandbox(outcome: Outcome) -> Self {
        Self { outcome, sandbox: None }
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

fn some_of(names: &[String]) -> String {
    let more = names.len().saturating_sub(MOST_NAMED);
    let named = names[..names.len() - more].join(", ");
    if more == 0 { named } else { format!("{named} and {more} more") }
}

fn shown(path: &Path, sandbox: &Sandbox) -> String {
    path.strip_prefix(&sandbox.project).unwrap_or(path).display().to_string()
}
