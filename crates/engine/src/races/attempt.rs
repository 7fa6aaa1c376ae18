//! Runs one attempt: its command in a sandbox of its own, then what it changed, then the checks.

use std::path::Path;

use whatif_diff::pattern::{Patterns, Scope};
use whatif_types::experiment::{AttemptPlan, Event, Kind, Outcome, Verdict};
use whatif_types::explain::whole_message;
use whatif_types::{MadeBy, NetMode, Sandbox, SandboxId};

use super::command::{Command, how_it_ended, never_begun, variables};
use super::measure::{self, Measurement};
use super::output::Tail;
use super::run::Racing;
use super::setup::Begin;
use crate::EngineError;
use crate::history::snapshot::Named;
use crate::lifecycle::LifecycleError;
use crate::lifecycle::captured::Heard;
use crate::lifecycle::run::Keep;
use crate::lifecycle::shift::Live;
use crate::network::Troubles;
use crate::races::Races;

/// So many paths are named in a sentence.
const MOST_NAMED: usize = 5;

/// An attempt that came to an end, and what holds its changes.
pub(super) struct Tried {
    pub outcome: Outcome,
    pub sandbox: Option<SandboxId>,
}

/// Whom an attempt tells how far it is.
pub(super) struct Say<'a> {
    pub event: &'a dyn Fn(Event),
    /// Its own command has ended: that is known, and this sandbox holds what it changed.
    pub done: &'a dyn Fn(&Outcome, &SandboxId),
}

impl Races {
    /// To its end, whatever that is. `None` if it was stopped.
    pub(super) fn attempt(&self, racing: &Racing, number: usize, say: &Say<'_>) -> Option<Tried> {
        let plan = &racing.plan.attempts[number];
        if plan.kind == Kind::Merge {
            let because = "a merge cannot be run again; merge its attempts again".to_owned();
            return Some(Tried::without_sandbox(Outcome::without_result(Verdict::Broken(because))));
        }
        let done = match self.found_done(racing, number) {
            Some(done) => {
                (say.event)(Event::AttemptBegan { attempt: plan.name.clone(), sandbox: done.1.name.clone() });
                Ok(Some(done))
            }
            None => self.try_it(racing, plan, say),
        };
        let (outcome, sandbox) = match done {
            Ok(done) => done?,
            // What is not there, or is no program, is the attempt's fault.
            Err(EngineError::Lifecycle(LifecycleError::Command(failed) | LifecycleError::NotFoundIn { failed, .. })) => {
                let failed = Outcome { ended: Some(never_begun(&failed)), ..Outcome::without_result(Verdict::Failed) };
                return Some(Tried::without_sandbox(failed));
            }
            Err(error) => return Some(Tried::without_sandbox(broken(&error))),
        };
        let judged = self.judge_attempt(racing, plan, outcome, &sandbox, say.event);
        let outcome = judged.unwrap_or_else(|error| Some(broken(&error)))?;
        Some(Tried { outcome, sandbox: Some(sandbox.id) })
    }

    /// One that somebody ran before and did not come to judge.
    fn found_done(&self, racing: &Racing, number: usize) -> Option<(Outcome, Sandbox)> {
        let (outcome, id) = racing.done.get(number)?.as_ref()?;
        Some((outcome.clone(), self.ground.store.get(id).ok()??))
    }

    /// Its own command.
    fn try_it(&self, racing: &Racing, plan: &AttemptPlan, say: &Say<'_>) -> Result<Option<(Outcome, Sandbox)>, EngineError> {
        let command = Command {
            sandbox: format!("{}.{}", racing.name, plan.name),
            arguments: plan.arguments.clone(),
            called: plan.called(),
            input: plan.input.clone(),
            variables: variables(racing, plan),
            heard: Heard::Both,
        };
        let mut tail = Tail::default();
        let mut began =
            |sandbox: &str| (say.event)(Event::AttemptBegan { attempt: plan.name.clone(), sandbox: sandbox.to_owned() });
        let ran = self.run_in_race(racing, &command, &mut began, &mut |piece| tail.feed(piece))?;
        let Some((run, exited)) = ran else { return Ok(None) };
        let missed_network = exited.missed_network && run.running.sandbox.details.net == NetMode::None;
        let finished = self.lifecycle.finish(run, &exited, Keep::Stopped)?;
        let mut outcome = Outcome::without_result(Verdict::Failed);
        outcome.ended = Some(how_it_ended(&exited, &tail));
        outcome.denied = denied(&finished.network);
        if missed_network {
            outcome.remarks.push("it tried to reach a network and had none".to_owned());
        }
        (say.done)(&outcome, &finished.sandbox.id);
        Ok(Some((outcome, finished.sandbox)))
    }

    /// Whoever failed by itself is not checked, but what it changed can be looked at.
    fn judge_attempt(
        &self,
        racing: &Racing,
        plan: &AttemptPlan,
        mut outcome: Outcome,
        sandbox: &Sandbox,
        tell: &dyn Fn(Event),
    ) -> Result<Option<Outcome>, EngineError> {
        if outcome.ended.as_ref().is_some_and(|ended| !ended.is_success()) {
            self.add_changes(racing, sandbox, &mut outcome)?;
            return Ok(Some(outcome));
        }
        self.judge_changes(racing, plan, sandbox, outcome, tell)
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
        let held = self.add_changes(racing, sandbox, &mut outcome)?;
        if let Some(touched) = self.forbidden(racing, sandbox, &held)? {
            outcome.verdict = Verdict::Forbidden(touched);
            return Ok(Some(outcome));
        }
        if !racing.plan.checks.is_empty() {
            let Named { sandbox, snapshot, .. } = self.history.named_position(sandbox, MadeBy::Fork, Live::Refuse, None, None)?;
            if !self.run_trials(racing, plan, &Begin { sandbox, snapshot }, &mut outcome, tell)? {
                return Ok(None);
            }
        }
        let passes = outcome.checks.iter().all(|check| !check.required || check.has_passed());
        outcome.verdict = if passes { Verdict::Passed } else { Verdict::FailedChecks };
        Ok(Some(outcome))
    }

    /// What it changed and must not. Where nobody can look, it may have changed anything.
    fn forbidden(&self, racing: &Racing, sandbox: &Sandbox, held: &Measurement) -> Result<Option<String>, EngineError> {
        if racing.plan.protect.is_empty() {
            return Ok(None);
        }
        let protected = Patterns::protecting(&racing.plan.protect, Scope::of_rules(&[&sandbox.project]))?;
        let touched = held.paths.iter().filter(|path| protected.matches(path)).chain(&held.unreadable);
        let names: Vec<String> = touched.map(|path| shown(path, sandbox)).collect();
        Ok((!names.is_empty()).then(|| some_of(&names)))
    }

    fn add_changes(&self, racing: &Racing, sandbox: &Sandbox, outcome: &mut Outcome) -> Result<Measurement, EngineError> {
        let held = self.measure_changes(sandbox, &racing.under)?;
        outcome.changes = held.changes.clone();
        measure::note_own(outcome);
        for (what, paths) in [("could not be read", &held.unreadable), ("needs its own approval", &held.risky)] {
            if !paths.is_empty() {
                let names: Vec<String> = paths.iter().map(|path| shown(path, sandbox)).collect();
                outcome.remarks.push(format!("{what}: {}", some_of(&names)));
            }
        }
        Ok(held)
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
