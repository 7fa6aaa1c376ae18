//! Finds races, tells how they stand, and takes away what they leave.

use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use whatif_diff::Summary;
use whatif_layers::state_dir::SandboxLock;
use whatif_race::rank;
use whatif_store::StoreError;
use whatif_sys::{absence, patience};
use whatif_types::experiment::{Attempt, AttemptState, Experiment, Kind, LABEL, Outcome, Ranking};
use whatif_types::{ExperimentId, Sandbox, SandboxId};

use crate::ground::GroundError;
use crate::lifecycle::create::NewSandbox;
use crate::races::{RaceError, Races};
use crate::{EngineError, now};

/// How long the lock of a race is waited for by whoever needs it, and by whoever only wants to know.
const PATIENCE: Duration = Duration::from_secs(1);
const GLANCE: Duration = Duration::from_millis(60);

/// A race as it is now, which nobody else changes meanwhile.
#[derive(Debug)]
pub struct Claimed {
    pub experiment: Experiment,
    pub(super) lock: SandboxLock,
}

/// What became of the sandboxes of a race of which one attempt is real.
#[derive(Debug, Default)]
pub struct Settled {
    pub removed: usize,
    /// Their names, and why they were kept.
    pub kept: Vec<(String, &'static str)>,
}

enum Removed {
    Gone,
    /// By another command.
    Before,
    Kept(&'static str),
}

/// Whether anybody is at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Running,
    /// Nobody runs it, and there is something left to do.
    Interrupted,
    Ended,
}

impl Standing {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Interrupted => "interrupted",
            Self::Ended => "ended",
        }
    }
}

impl Races {
    /// By name, or the latest of this project.
    pub fn find_race(&self, name: Option<&str>) -> Result<Experiment, EngineError> {
        let mut experiment = match name {
            Some(name) => {
                let found = self.ground.store.find_experiment(name)?;
                found.ok_or_else(|| RaceError::NoSuchRace { name: name.escape_debug().to_string() })?
            }
            None => {
                let project = self.ground.caller.project_of(&self.ground.caller.cwd)?;
                self.ground.store.latest_experiment(&project)?.ok_or(RaceError::NoRaceHere)?
            }
        };
        // Somebody may have removed some.
        for record in &mut experiment.records {
            if let Some(id) = &record.sandbox
                && self.ground.store.get(id)?.is_none()
            {
                record.sandbox = None;
            }
        }
        Ok(experiment)
    }

    /// Newest first.
    pub fn races(&self) -> Result<Vec<Experiment>, EngineError> {
        Ok(self.ground.store.list_experiments()?)
    }

    pub fn standing(&self, experiment: &Experiment) -> Result<Standing, EngineError> {
        if experiment.is_ended() {
            return Ok(Standing::Ended);
        }
        let place = self.race_directory(&experiment.id);
        let is_there = absence::exists(&place).map_err(|e| EngineError::io("examine", &place, e))?;
        let is_free = !is_there || take_soon(&place, GLANCE)?.is_some();
        Ok(if is_free { Standing::Interrupted } else { Standing::Running })
    }

    /// The attempts that ended, the best first.
    #[must_use]
    pub fn ranking(&self, experiment: &Experiment) -> Ranking {
        rank::rank(&experiment.details.plan, &outcomes(experiment), &experiment.details.judged)
    }

    /// The number of an attempt, by name. `best` is the winner.
    pub fn find_attempt(&self, experiment: &Experiment, name: &str) -> Result<usize, EngineError> {
        let attempts = &experiment.details.plan.attempts;
        let wanted = match name {
            "best" => self.ranking(experiment).winner.ok_or_else(|| RaceError::NoWinner { name: experiment.name.clone() })?,
            other => other.to_owned(),
        };
        let found = attempts.iter().position(|a| a.name == wanted);
        Ok(found.ok_or_else(|| RaceError::NoSuchAttempt {
            race: experiment.name.clone(),
            attempt: wanted.escape_debug().to_string(),
            known: attempts.iter().map(|a| a.name.clone()).collect(),
        })?)
    }

    /// What holds the changes of an attempt.
    pub fn sandbox_of(&self, experiment: &Experiment, number: usize) -> Result<Sandbox, EngineError> {
        let attempt = || experiment.details.plan.attempts[number].name.clone();
        let record = &experiment.records[number];
        if record.state != AttemptState::Ended {
            return Err(RaceError::NotEnded { attempt: attempt() }.into());
        }
        let found = record.sandbox.as_ref().map(|id| self.ground.store.get(id)).transpose()?.flatten();
        Ok(found.ok_or_else(|| match experiment.details.applied.contains(&attempt()) {
            true => RaceError::AppliedAlready { attempt: attempt() },
            false => RaceError::NoSandbox { attempt: attempt(), applied: experiment.details.applied.last().cloned() },
        })?)
    }

    /// Why an attempt's sandbox went while something was done with it: most likely another attempt was applied.
    #[must_use]
    pub fn overtaken(&self, experiment: &Experiment, number: usize) -> EngineError {
        let now = self.ground.store.find_experiment(experiment.id.as_str()).ok().flatten();
        let applied = now.and_then(|now| now.details.applied.last().cloned());
        RaceError::NoSandbox { attempt: experiment.details.plan.attempts[number].name.clone(), applied }.into()
    }

    /// The same, to look at: whoever asks for a diff does not want to apply anything.
    pub fn sandbox_to_show(&self, experiment: &Experiment, number: usize) -> Result<Sandbox, EngineError> {
        self.sandbox_of(experiment, number).map_err(|error| match error {
            EngineError::Race(RaceError::AppliedAlready { attempt }) => RaceError::AppliedAndGone { attempt }.into(),
            other => other,
        })
    }

    /// Whether an attempt's sandbox still is what was judged. Commands may have been run in it since.
    pub fn is_as_judged(&self, experiment: &Experiment, number: usize) -> Result<bool, EngineError> {
        let sandbox = self.sandbox_of(experiment, number)?;
        let record = &experiment.records[number];
        // Without checks nothing was judged.
        Ok(record.snapshot.is_none() || self.is_sealed(record, &sandbox)?)
    }

    /// Removes a race and all of its sandboxes.
    pub fn remove_race(&self, experiment: &Experiment) -> Result<(), EngineError> {
        drop(self.claim_race(experiment)?);
        self.remove_sandboxes(experiment)?;
        // Last, so that whoever comes after a crash still knows what belongs to it.
        let _claimed = self.claim_race(experiment)?;
        self.ground.store.delete_experiment(&experiment.id)?;
        let _ = std::fs::remove_dir_all(self.race_directory(&experiment.id));
        Ok(())
    }

    /// When races were removed, or somebody wanted that: a removal that was killed may have left layers that nobody knows.
    pub fn look_after_races(&self) {
        self.ground.layers_are_left();
    }

    /// Removes the record of a race that cannot be read. What it left is for `gc`.
    pub fn remove_unreadable_race(&self, name: &str) -> Result<(), EngineError> {
        Ok(self.ground.store.delete_experiment_named(name)?)
    }

    /// An attempt was made real: the others are not needed any more, nor is it itself if nothing of it is left that matters. What
    /// people have worked in since stays.
    pub fn settle_race(&self, claimed: Claimed, number: usize) -> Result<Settled, EngineError> {
        let Claimed { mut experiment, lock } = claimed;
        let (mut rest, mut settled) = (None, Settled::default());
        match self.sandbox_of(&experiment, number) {
            Ok(winner) => {
                let left = self.ground.summarize(&winner)?;
                if left.matters {
                    settled.kept.push((winner.name, why_winner_kept(&left)));
                    rest = Some(winner.id);
                }
            }
            // It is gone already.
            Err(EngineError::Race(RaceError::AppliedAlready { .. } | RaceError::NoSandbox { .. })) => {}
            Err(error) => return Err(error),
        }
        experiment.details.applied.push(experiment.details.plan.attempts[number].name.clone());
        experiment.details.start = None;
        self.ground.store.update_experiment(&mut experiment)?;
        drop(lock);
        self.ground.layers_are_left();
        for sandbox in self.sandboxes_of_race(&experiment)?.into_iter().filter(|s| Some(&s.id) != rest.as_ref()) {
            // The winner is real as a whole.
            let is_winner = experiment.records[number].sandbox.as_ref() == Some(&sandbox.id);
            match self.remove_unless(&sandbox, |now| if is_winner { Ok(None) } else { self.why_kept(&experiment, now) }) {
                Ok(Removed::Gone) => settled.removed += 1,
                Ok(Removed::Kept(why)) => {
                    settled.kept.push((sandbox.name, why));
                    continue;
                }
                Ok(Removed::Before) => {}
                Err(error) => return Err(error),
            }
            if let Some(number) = experiment.records.iter().position(|r| r.sandbox.as_ref() == Some(&sandbox.id)) {
                let record = Attempt { sandbox: None, ..experiment.records[number].clone() };
                self.ground.store.put_attempt(&experiment.id, number, &record)?;
            }
        }
        Ok(settled)
    }

    /// Removes a sandbox of a race unless there is a reason to keep it, which nobody can give meanwhile.
    fn remove_unless(
        &self,
        sandbox: &Sandbox,
        why_kept: impl Fn(&Sandbox) -> Result<Option<&'static str>, EngineError>,
    ) -> Result<Removed, EngineError> {
        let is_gone = |error: &EngineError| {
            matches!(
                error,
                EngineError::Ground(GroundError::NoSuchSandbox { .. } | GroundError::Store(StoreError::Conflict { .. }))
            )
        };
        let outcome = (|| {
            let lock = self.ground.lock(sandbox)?;
            let Some(now) = self.ground.store.get(&sandbox.id)? else { return Ok(Removed::Before) };
            let now = self.ground.refresh(&now)?;
            if let Some(why) = why_kept(&now)? {
                return Ok(Removed::Kept(why));
            }
            self.lifecycle.remove_locked(now, lock)?;
            Ok(Removed::Gone)
        })();
        match outcome {
            Err(error) if is_gone(&error) => Ok(Removed::Before),
            other => other,
        }
    }

    /// An attempt was made real in part, or the others are still wanted.
    pub fn note_applied(&self, claimed: Claimed, number: usize) -> Result<(), EngineError> {
        let Claimed { mut experiment, lock: _lock } = claimed;
        experiment.details.applied.push(experiment.details.plan.attempts[number].name.clone());
        Ok(self.ground.store.update_experiment(&mut experiment)?)
    }

    /// Refuses a race that lacks variables it was begun with.
    pub fn check_race_env(&self, experiment: &Experiment, env: &[String]) -> Result<(), EngineError> {
        wish(experiment, env).map(|_| ())
    }

    /// Forgets what came of some attempts, so that they are run again; of all if none is named.
    pub fn reset_race(&self, experiment: &Experiment, attempts: &[String]) -> Result<Experiment, EngineError> {
        let Claimed { mut experiment, lock } = self.claim_race(experiment)?;
        let mut numbers = attempts.iter().map(|name| self.find_attempt(&experiment, name)).collect::<Result<Vec<usize>, _>>()?;
        if let Some(number) = numbers.iter().find(|n| experiment.details.plan.attempts[**n].kind == Kind::Merge) {
            let attempt = experiment.details.plan.attempts[*number].name.clone();
            return Err(RaceError::IsMerge { attempt }.into());
        }
        let before = experiment.clone();
        let mut ids: Vec<SandboxId> = Vec::new();
        if attempts.is_empty() {
            // From reality as it is now.
            ids.extend(experiment.details.start.take().map(|start| start.sandbox));
            experiment.details.began_at = now();
            drop_merged(&mut experiment, &mut ids);
            numbers = (0..experiment.records.len()).collect();
        }
        experiment.details.ended_at = None;
        experiment.details.spent_ms = 0;
        experiment.details.judged.clear();
        let again: Vec<&str> = numbers.iter().map(|n| experiment.details.plan.attempts[*n].name.as_str()).collect();
        experiment.details.applied.retain(|name| !again.contains(&name.as_str()));
        // Before its attempts: one that waits in a race that has ended would wait for ever.
        self.ground.store.update_experiment(&mut experiment)?;
        for number in numbers {
            ids.extend(experiment.records[number].sandbox.clone());
            experiment.records[number] = Attempt::waiting();
            self.ground.store.put_attempt(&experiment.id, number, &experiment.records[number])?;
        }
        drop(lock);
        for sandbox in self.sandboxes_of_race(&experiment)?.into_iter().filter(|s| ids.contains(&s.id)) {
            if let Removed::Kept(_) = self.remove_unless(&sandbox, |now| self.why_kept(&before, now))? {
                self.release(&sandbox)?;
            }
        }
        Ok(experiment)
    }

    /// The right to change a race, for as long as the result lives. What was known of it before may be outdated.
    pub fn claim_race(&self, experiment: &Experiment) -> Result<Claimed, EngineError> {
        let place = self.race_directory(&experiment.id);
        DirBuilder::new().mode(0o700).recursive(true).create(&place).map_err(|e| EngineError::io("create", &place, e))?;
        let lock = take_soon(&place, PATIENCE)?.ok_or_else(|| RaceError::UnderWay { name: experiment.name.clone() })?;
        let Some(experiment) = self.ground.store.find_experiment(experiment.id.as_str())? else {
            let _ = std::fs::remove_dir_all(&place);
            return Err(RaceError::NoSuchRace { name: experiment.name.clone() }.into());
        };
        Ok(Claimed { experiment, lock })
    }

    /// Takes away what nobody will come back to: the sandboxes of attempts that did not end.
    pub(super) fn clear_leftovers(&self, experiment: &Experiment) -> Result<(), EngineError> {
        let start = experiment.details.start.iter().map(|start| &start.sandbox);
        let known: Vec<&SandboxId> = experiment.records.iter().filter_map(|r| r.sandbox.as_ref()).chain(start).collect();
        for sandbox in self.sandboxes_of_race(experiment)?.into_iter().filter(|s| !known.contains(&&s.id)) {
            // One that somebody is at work on goes the next time.
            self.lifecycle.remove_unused(&sandbox)?;
        }
        Ok(())
    }

    fn sandboxes_of_race(&self, experiment: &Experiment) -> Result<Vec<Sandbox>, EngineError> {
        let is_its = |s: &Sandbox| s.details.labels.get(LABEL).is_some_and(|id| id == experiment.id.as_str());
        Ok(self.ground.store.list()?.into_iter().filter(is_its).collect())
    }

    /// Makes a sandbox that people have worked in one like others, which no race removes.
    fn release(&self, sandbox: &Sandbox) -> Result<(), EngineError> {
        let _lock = self.ground.lock(sandbox)?;
        let Some(mut now) = self.ground.store.get(&sandbox.id)? else { return Ok(()) };
        now.details.labels.remove(LABEL);
        Ok(self.ground.store.update(&mut now)?)
    }

    /// Not while the race is claimed: what deletes in the background would go on claiming it.
    fn remove_sandboxes(&self, experiment: &Experiment) -> Result<(), EngineError> {
        for sandbox in self.sandboxes_of_race(experiment)? {
            self.remove_unless(&sandbox, |_| Ok(None))?;
        }
        Ok(())
    }

    /// Where the lock of a race is.
    fn race_directory(&self, id: &ExperimentId) -> PathBuf {
        self.races_directory().join(id.as_str())
    }

    pub(crate) fn races_directory(&self) -> PathBuf {
        self.ground.state.root().join("races")
    }
}

/// What was put together from attempts that will be others goes; it always comes last.
/// Why the sandbox of an attempt stays although the attempt is real.
fn why_winner_kept(left: &Summary) -> &'static str {
    if left.unreadable.is_empty() { "has changes that were not applied" } else { "has something that cannot be read" }
}

fn drop_merged(experiment: &mut Experiment, ids: &mut Vec<SandboxId>) {
    let attempts = &mut experiment.details.plan.attempts;
    let own = attempts.iter().position(|a| a.kind == Kind::Merge).unwrap_or(attempts.len());
    attempts.truncate(own);
    ids.extend(experiment.records.drain(own..).filter_map(|record| record.sandbox));
}

/// A process that was started while the lock was held has it until it is another program, and so does whoever only looked.
fn take_soon(place: &Path, patience: Duration) -> Result<Option<SandboxLock>, EngineError> {
    Ok(patience::try_until(patience, || SandboxLock::take(place))?)
}

/// Those that ended, with their numbers.
pub(super) fn outcomes(experiment: &Experiment) -> Vec<(usize, &Outcome)> {
    experiment.records.iter().enumerate().filter_map(|(number, record)| Some((number, record.outcome.as_ref()?))).collect()
}

/// What every sandbox of a race shall be. `env` has the variables that were not written down.
pub(super) fn wish(experiment: &Experiment, env: &[String]) -> Result<NewSandbox, EngineError> {
    let is_given = |name: &&String| env.iter().any(|entry| entry.split_once('=').is_some_and(|(given, _)| given == *name));
    let missing: Vec<String> = experiment.details.set_env.iter().filter(|name| !is_given(name)).cloned().collect();
    if !missing.is_empty() {
        return Err(RaceError::NeedsEnv { race: experiment.name.clone(), names: missing }.into());
    }
    let mut new: NewSandbox =
        serde_json::from_value(experiment.details.sandbox.clone()).map_err(|e| StoreError::Malformed(e.to_string()))?;
    new.cwd = Some(experiment.details.cwd.clone());
    new.labels.insert(LABEL.to_owned(), experiment.id.to_string());
    new.env.extend(env.iter().cloned());
    new.disposable = true;
    Ok(new)
}
