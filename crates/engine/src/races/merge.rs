//! Puts parts of several attempts together into one more attempt, which is judged like the others.

mod compose;

use whatif_types::experiment::{Attempt, AttemptPlan, Event, Experiment, Kind, Outcome, Verdict};
use whatif_types::{Sandbox, name};

use self::compose::{Contribution, compose};
use super::records::Claimed;
use super::run::{Racing, Tell};
use crate::EngineError;
use crate::changes::ChangesError;
use crate::changes::apply::{ApplyRequest, Prepared};
use crate::lifecycle::create::NewSandbox;
use crate::races::{RaceError, Races};

/// What is taken of one attempt.
#[derive(Clone, Debug)]
pub struct Part {
    pub attempt: String,
    /// Patterns; none means everything.
    pub files: Vec<String>,
}

/// What was put together.
#[derive(Debug)]
pub struct Merged {
    pub experiment: Experiment,
    /// Its number among the attempts.
    pub number: usize,
}

impl Races {
    /// Where several changed the same, texts are merged; what cannot be is refused, and nothing is made. `None` if it was
    /// stopped; then nothing is left of it.
    pub fn merge_attempts(
        &self,
        experiment: &Experiment,
        parts: &[Part],
        name: Option<&str>,
        env: &[String],
        tell: &mut Tell<'_>,
    ) -> Result<Option<Merged>, EngineError> {
        let Claimed { mut experiment, lock: _lock } = self.claim_race(experiment)?;
        let attempt = self.describe(&experiment, parts, name)?;
        let number = experiment.records.len();
        experiment.details.plan.attempts.push(attempt.clone());
        // The budget was for the race.
        let mut racing = Racing { begin: self.recorded_start(&experiment)?, deadline: None, ..Racing::of(&experiment, env)? };
        racing.under = self.layers_under(&racing)?;
        let sandbox = self.put_together(&experiment, &racing, parts, &attempt)?;
        tell(Some(&racing.began(1, true)));
        tell(Some(&Event::AttemptBegan { attempt: attempt.name.clone(), sandbox: sandbox.name.clone() }));
        let mut outcome = Outcome::without_result(Verdict::Failed);
        outcome.remarks = already_real(&experiment, parts);
        let judged = self.beside(&racing, tell, |races, say| races.judge_changes(&racing, &attempt, &sandbox, outcome, say));
        let outcome = match judged {
            Ok(Some(outcome)) => outcome,
            Ok(None) => {
                self.lifecycle.remove_unused(&sandbox)?;
                return Ok(None);
            }
            Err(error) => super::attempt::broken(&error),
        };
        tell(Some(&Event::AttemptEnded { attempt: attempt.name, outcome: Box::new(outcome.clone()) }));
        // Its result first: without a place in the plan it does not count, and without a result it would wait for ever.
        experiment.records.push(Attempt::waiting());
        self.end_attempt(&mut experiment, number, outcome, Some(sandbox.id))?;
        self.ground.store.update_experiment(&mut experiment)?;
        let (race, ranking) = (experiment.name.clone(), self.ranking(&experiment));
        tell(Some(&Event::Ended { race, ranking, spent_ms: racing.spent_ms(), interrupted: false }));
        Ok(Some(Merged { experiment, number }))
    }

    /// A sandbox that holds the parts, over what was set up for all.
    fn put_together(
        &self,
        experiment: &Experiment,
        racing: &Racing,
        parts: &[Part],
        attempt: &AttemptPlan,
    ) -> Result<Sandbox, EngineError> {
        let mut prepared = Vec::new();
        if let Some(begin) = &racing.begin {
            prepared.push((None, self.prepare_all(&begin.sandbox)?));
        }
        for part in parts {
            prepared.push((Some(part.attempt.as_str()), self.prepare_part(experiment, part)?));
        }
        let contributions: Vec<Contribution<'_>> =
            prepared.iter().map(|(attempt, prepared)| Contribution { attempt: *attempt, plan: &prepared.plan }).collect();
        let plan = compose(&contributions, &experiment.project)?;
        let like = self.sandbox_of(experiment, self.find_attempt(experiment, &parts[0].attempt)?)?;
        let new = NewSandbox {
            name: self.free_name(format!("{}.{}", experiment.name, attempt.name))?,
            backend: Some(like.details.backend),
            template: None,
            ..racing.wish.clone()
        };
        self.lifecycle.keep_filled(self.lifecycle.filled(&new, &like, &plan)?)
    }

    /// None, for one that is made up, if it cannot be had.
    fn free_name(&self, wanted: String) -> Result<Option<String>, EngineError> {
        let is_free = name::validate(&wanted).is_ok() && !self.changes.is_sandbox(&wanted)?;
        Ok(is_free.then_some(wanted))
    }

    fn describe(&self, experiment: &Experiment, parts: &[Part], name: Option<&str>) -> Result<AttemptPlan, EngineError> {
        if parts.len() < 2 {
            return Err(RaceError::NothingToMerge.into());
        }
        let numbers = parts.iter().map(|part| self.find_attempt(experiment, &part.attempt)).collect::<Result<Vec<_>, _>>()?;
        if let Some(twice) = (1..numbers.len()).find(|at| numbers[..*at].contains(&numbers[*at])) {
            return Err(RaceError::NamedTwice { attempt: parts[twice].attempt.clone() }.into());
        }
        let given = name.map_or_else(|| parts.iter().map(|p| p.attempt.as_str()).collect::<Vec<_>>().join("-"), str::to_owned);
        name::validate(&given)?;
        if experiment.details.plan.attempts.iter().any(|a| a.name == given) {
            return Err(RaceError::AttemptTaken { race: experiment.name.clone(), attempt: given }.into());
        }
        let taken = |part: &Part| match part.files.as_slice() {
            [] => format!("'{}'", part.attempt),
            files => format!("{} of '{}'", files.join(" "), part.attempt),
        };
        let about = format!("merged from {}", parts.iter().map(taken).collect::<Vec<_>>().join(" and "));
        Ok(AttemptPlan {
            name: given,
            kind: Kind::Merge,
            about,
            arguments: Vec::new(),
            input: None,
            parameters: Default::default(),
        })
    }

    fn prepare_part(&self, experiment: &Experiment, part: &Part) -> Result<Prepared, EngineError> {
        let number = self.find_attempt(experiment, &part.attempt)?;
        let sandbox = self.sandbox_of(experiment, number)?;
        let nothing_fits = || RaceError::NothingFits { attempt: part.attempt.clone(), patterns: part.files.clone() };
        let prepared = if part.files.is_empty() {
            self.prepare_all(&sandbox)?
        } else {
            let request = ApplyRequest { files: part.files.clone(), ..ApplyRequest::of(sandbox.name.as_str().into()) };
            self.changes.prepare_apply(&request).map_err(|error| match error {
                EngineError::Changes(ChangesError::NothingFits { .. }) => nothing_fits().into(),
                other => other,
            })?
        };
        if !prepared.conflicts.is_empty() {
            return Err(RaceError::Behind { attempt: part.attempt.clone(), sandbox: sandbox.name }.into());
        }
        if prepared.plan.operations.is_empty() {
            return Err(nothing_fits().into());
        }
        Ok(prepared)
    }

    fn prepare_all(&self, sandbox: &Sandbox) -> Result<Prepared, EngineError> {
        let request = ApplyRequest::of(sandbox.name.as_str().into());
        self.changes.prepare_apply(&ApplyRequest { all: true, outside: true, ..request })
    }
}

/// What an apply took out of an attempt is not part of a merge.
fn already_real(experiment: &Experiment, parts: &[Part]) -> Vec<String> {
    let applied = parts.iter().filter(|part| experiment.details.applied.contains(&part.attempt));
    applied.map(|part| format!("'{}' was applied before; what is already real was not taken again", part.attempt)).collect()
}
