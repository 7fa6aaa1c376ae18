//! Runs a race, or what is left of one.

use std::time::{Duration, Instant};

use whatif_race::rank;
use whatif_types::experiment::{Attempt, AttemptState, Event, Experiment, ExperimentPlan, Outcome, Ranking, Verdict};
use whatif_types::{EventKind, LayerId, SandboxId, Span};

use super::records::{Claimed, outcomes, wish};
use super::setup::Begin;
use super::stop::{Stop, Why};
use crate::lifecycle::create::NewSandbox;
use crate::races::{RaceError, Races};
use crate::{EngineError, now};

/// Whether whoever is told wants it to go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    GoOn,
    Stop,
}

/// How a race ended.
#[derive(Debug)]
pub struct Raced {
    pub experiment: Experiment,
    pub ranking: Ranking,
    /// It can be resumed.
    pub interrupted: bool,
}

/// Called for every event, and with nothing several times a second.
pub(super) type Tell<'a> = dyn FnMut(Option<&Event>) -> Flow + 'a;

/// What all who work on a race have to know.
pub(super) struct Racing {
    pub name: String,
    pub plan: ExperimentPlan,
    /// What every sandbox of it shall be.
    pub wish: NewSandbox,
    /// What attempts begin over, if that is more than reality.
    pub begin: Option<Begin>,
    /// The layers that every attempt has under it: a set-up, a template.
    pub under: Vec<LayerId>,
    /// What is known of attempts that are not judged yet, by their number.
    pub done: Vec<Option<(Outcome, SandboxId)>>,
    pub began: Instant,
    /// By those who ran it before.
    pub spent_before: Duration,
    /// When the budget is used up.
    pub deadline: Option<Instant>,
    pub stop: Stop,
}

impl Racing {
    pub fn of(experiment: &Experiment, env: &[String]) -> Result<Self, EngineError> {
        let (began, spent_before) = (Instant::now(), Duration::from_millis(experiment.details.spent_ms));
        let budget = experiment.details.plan.budget.map(Span::duration);
        Ok(Self {
            name: experiment.name.clone(),
            plan: experiment.details.plan.clone(),
            wish: wish(experiment, env)?,
            begin: None,
            under: Vec::new(),
            done: experiment.records.iter().map(|record| record.so_far.clone().zip(record.sandbox.clone())).collect(),
            deadline: budget.map(|budget| began + budget.saturating_sub(spent_before)),
            began,
            spent_before,
            stop: Stop::new()?,
        })
    }

    pub fn began(&self, jobs: u32, resumed: bool) -> Event {
        Event::Began {
            race: self.name.clone(),
            attempts: self.plan.attempts.iter().map(|a| a.name.clone()).collect(),
            checks: self.plan.checks.iter().map(|c| c.name.clone()).collect(),
            jobs,
            resumed,
        }
    }

    /// By all who ran it.
    pub fn spent_ms(&self) -> u64 {
        u64::try_from((self.spent_before + self.began.elapsed()).as_millis()).unwrap_or(u64::MAX)
    }

    /// One that passes may be enough.
    pub fn notice(&self, attempt: &str, outcome: &Outcome) {
        let has_won = outcome.verdict == Verdict::Passed && outcome.changes.files > 0;
        if self.plan.first_success && has_won {
            self.stop.set(Why::Won(attempt.to_owned()));
        }
    }
}

impl Races {
    /// Runs all attempts that have not ended. Whoever is told can stop it; what has ended by then stays.
    /// `env` are variables for all of its commands, beside those that are recorded.
    pub fn race(&self, experiment: &Experiment, env: &[String], tell: &mut Tell<'_>) -> Result<Raced, EngineError> {
        let raced = self.run_race(experiment, env, tell);
        // Layers of what was cancelled are nobody's.
        self.ground.layers_are_left();
        raced
    }

    fn run_race(&self, experiment: &Experiment, env: &[String], tell: &mut Tell<'_>) -> Result<Raced, EngineError> {
        let Claimed { mut experiment, lock: _lock } = self.claim_race(experiment)?;
        if experiment.is_ended() {
            return Err(RaceError::NothingLeft { name: experiment.name }.into());
        }
        let mut racing = Racing::of(&experiment, env)?;
        self.clear_leftovers(&experiment)?;
        let resumed = self.begin_anew_what_was_running(&mut experiment)?;
        let jobs = jobs(&experiment.details.plan);
        tell(Some(&racing.began(jobs, resumed)));
        let facts = [("project", experiment.project.to_string_lossy().into()), ("attempts", racing.plan.attempts.len().into())];
        self.ground.tell_of(EventKind::RaceStarted, &experiment.name, None, facts);
        for (number, outcome) in outcomes(&experiment) {
            racing.notice(&racing.plan.attempts[number].name, outcome);
        }
        let left = left(&experiment);
        if racing.stop.why().is_none() && !left.is_empty() {
            racing.begin = self.set_up(&mut experiment, &racing, tell)?;
            racing.under = self.layers_under(&racing)?;
        }
        self.run_all(&mut experiment, &racing, jobs, left, tell)?;
        self.cancel_the_rest(&mut experiment, &racing, tell)?;
        self.clear_leftovers(&experiment)?;
        if racing.stop.why().is_none() {
            self.ask_the_judge(&mut experiment, &racing, tell)?;
        }
        let interrupted = racing.stop.why() == Some(&Why::Interrupted);
        experiment.details.ended_at = (!interrupted).then(now);
        experiment.details.spent_ms = racing.spent_ms();
        self.ground.store.update_experiment(&mut experiment)?;
        let facts = [("project", experiment.project.to_string_lossy().into()), ("interrupted", interrupted.into())];
        self.ground.tell_of(EventKind::RaceEnded, &experiment.name, None, facts);
        let ranking = rank::rank(&experiment.details.plan, &outcomes(&experiment), &experiment.details.judged);
        tell(Some(&Event::Ended {
            race: experiment.name.clone(),
            ranking: ranking.clone(),
            spent_ms: experiment.details.spent_ms,
            interrupted,
        }));
        Ok(Raced { experiment, ranking, interrupted })
    }

    /// True if anything was done before.
    fn begin_anew_what_was_running(&self, experiment: &mut Experiment) -> Result<bool, EngineError> {
        let resumed = experiment.details.spent_ms > 0 || experiment.records.iter().any(|r| r.state != AttemptState::Waiting);
        for (number, record) in experiment.records.iter_mut().enumerate() {
            if record.state == AttemptState::Running {
                // What has done its work is only judged anew.
                let done = record.so_far.take().filter(|_| record.sandbox.is_some());
                let sandbox = record.sandbox.take().filter(|_| done.is_some());
                *record = Attempt { so_far: done, sandbox, ..Attempt::waiting() };
                self.ground.store.put_attempt(&experiment.id, number, record)?;
            }
        }
        Ok(resumed)
    }

    /// Attempts that will not be run because one won, or because time is up.
    fn cancel_the_rest(&self, experiment: &mut Experiment, racing: &Racing, tell: &mut Tell<'_>) -> Result<(), EngineError> {
        let because = match racing.stop.why() {
            Some(Why::Won(name)) => format!("'{name}' passed first"),
            Some(Why::Budget) => "the budget is used up".to_owned(),
            // Those under way begin anew when it is resumed.
            Some(Why::Interrupted) | None => return Ok(()),
        };
        for number in left(experiment) {
            let outcome = Outcome::without_result(Verdict::Cancelled(because.clone()));
            let event =
                Event::AttemptEnded { attempt: racing.plan.attempts[number].name.clone(), outcome: Box::new(outcome.clone()) };
            let sandbox = experiment.records[number].sandbox.clone();
            self.end_attempt(experiment, number, outcome, sandbox)?;
            tell(Some(&event));
        }
        Ok(())
    }

    pub(super) fn note_running(&self, experiment: &mut Experiment, attempt: &str) -> Result<(), EngineError> {
        let number = experiment.details.plan.attempts.iter().position(|a| a.name == attempt);
        let Some(number) = number else { return Ok(()) };
        experiment.records[number].state = AttemptState::Running;
        Ok(self.ground.store.put_attempt(&experiment.id, number, &experiment.records[number])?)
    }

    pub(super) fn end_attempt(
        &self,
        experiment: &mut Experiment,
        number: usize,
        outcome: Outcome,
        sandbox: Option<SandboxId>,
    ) -> Result<(), EngineError> {
        let held = sandbox.as_ref().map(|id| self.ground.store.get(id)).transpose()?.flatten();
        let seal = held.as_ref().map(|held| self.seal(held)).transpose()?;
        let snapshot = held.and_then(|held| held.details.position.at);
        experiment.records[number] =
            Attempt { state: AttemptState::Ended, sandbox, snapshot, seal, so_far: None, outcome: Some(outcome) };
        Ok(self.ground.store.put_attempt(&experiment.id, number, &experiment.records[number])?)
    }
}

/// The numbers of attempts that have not ended.
fn left(experiment: &Experiment) -> Vec<usize> {
    let waits = |number: &usize| experiment.records[*number].state != AttemptState::Ended;
    (0..experiment.records.len()).filter(waits).collect()
}

/// How many can be attended to with the descriptors we may have.
fn by_descriptors() -> u32 {
    const FOR_EACH: u64 = 24;
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    limit.map_or(u32::MAX, |most| u32::try_from(most / FOR_EACH).unwrap_or(u32::MAX))
}

/// How many run at the same time.
fn jobs(plan: &ExperimentPlan) -> u32 {
    let processors = std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(1));
    let most = u32::try_from(plan.attempts.len()).unwrap_or(u32::MAX).min(by_descriptors());
    plan.jobs.unwrap_or(processors).clamp(1, most.max(1))
}
