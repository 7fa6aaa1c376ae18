//! Records what is to be raced.

use std::io;
use std::path::Path;

use whatif_diff::pattern::{Patterns, Scope};
use whatif_race::plan;
use whatif_store::StoreError;
use whatif_types::experiment::{Attempt, Experiment, ExperimentDetails, ExperimentPlan, Kind};
use whatif_types::text::Text;
use whatif_types::{ExperimentId, name};

use crate::git::Git;
use crate::ground::GroundError;
use crate::ids::new_id;
use crate::lifecycle::create::{NewSandbox, with_a_name};
use crate::races::{RaceError, Races};
use crate::{EngineError, now};

/// What a race is called.
#[derive(Clone, Debug)]
pub enum RaceName {
    Generated,
    /// This and nothing else.
    Exactly(String),
    /// This, or the first of `name-2`, `name-3`, … that is free: a file is there to be run again.
    LikeThis(String),
}

/// What a new race shall be.
#[derive(Clone, Debug)]
pub struct NewRace {
    pub name: RaceName,
    pub plan: ExperimentPlan,
    /// What every sandbox of it shall be.
    pub sandbox: NewSandbox,
}

impl Races {
    /// Records a race. Nothing runs yet.
    pub fn new_race(&self, new: NewRace) -> Result<Experiment, EngineError> {
        let NewRace { name, mut plan, sandbox } = new;
        if let RaceName::Exactly(given) | RaceName::LikeThis(given) = &name {
            name::validate(given)?;
        }
        let validated = self.lifecycle.validate(&sandbox)?;
        plan::check(&plan).map_err(RaceError::from)?;
        self.pin_commits(&mut plan, &validated.project)?;
        Patterns::protecting(&plan.protect, Scope::of_rules(&[&validated.project]))?;
        if !sandbox.publish.is_empty() {
            return Err(RaceError::Publishes.into());
        }
        let id = ExperimentId::parse(new_id()?.as_str()).ok_or(RaceError::NoRaceHere)?;
        let (set, carried): (Vec<String>, Vec<String>) = sandbox.env.iter().cloned().partition(|entry| entry.contains('='));
        let wish = NewSandbox { name: None, idempotency_key: None, env: carried, ..sandbox };
        let details = ExperimentDetails {
            began_at: now(),
            ended_at: None,
            spent_ms: 0,
            cwd: validated.cwd,
            sandbox: serde_json::to_value(&wish).map_err(|e| StoreError::Malformed(e.to_string()))?,
            set_env: set.iter().filter_map(|entry| Some(entry.split_once('=')?.0.to_owned())).collect(),
            start: None,
            judged: Vec::new(),
            applied: Vec::new(),
            plan,
        };
        let mut experiment = Experiment {
            id,
            name: String::new(),
            version: 1,
            created_at: now(),
            project: validated.project,
            records: vec![Attempt::waiting(); details.plan.attempts.len()],
            details,
        };
        match name {
            RaceName::Exactly(name) => {
                experiment.name = name;
                self.ground.store.insert_experiment(&experiment)?;
            }
            RaceName::LikeThis(name) => self.insert_like(&mut experiment, &name)?,
            RaceName::Generated => with_a_name(None, |name| {
                experiment.name = name.to_owned();
                // One that is taken is followed by another one.
                self.ground.store.insert_experiment(&experiment).map_err(|error| match error {
                    StoreError::ExperimentTaken { name } => StoreError::NameTaken { name }.into(),
                    other => other.into(),
                })
            })?,
        }
        Ok(experiment)
    }

    /// What a name such as HEAD means now, so that it means that for whoever begins later. Where git cannot be asked, the
    /// attempt will be told so itself.
    fn pin_commits(&self, plan: &mut ExperimentPlan, project: &Path) -> Result<(), EngineError> {
        let Some(git) = Git::around(project, &self.ground.caller.home, self.ground.caller.is_root())? else { return Ok(()) };
        for attempt in plan.attempts.iter_mut().filter(|attempt| attempt.kind == Kind::Revert) {
            let Some(Text::Plain(named)) = attempt.arguments.last() else { continue };
            let commit = format!("{named}^{{commit}}");
            let id = match git.read(&["rev-parse", "--verify", "--quiet", "--end-of-options", &commit]) {
                Ok(id) => id,
                // There is no git out here.
                Err(EngineError::Ground(GroundError::Io { source, .. })) if source.kind() == io::ErrorKind::NotFound => {
                    return Ok(());
                }
                Err(error @ EngineError::Ground(GroundError::Io { .. })) => return Err(error),
                Err(_) => return Err(RaceError::NoSuchCommit { commit: named.clone() }.into()),
            };
            if !id.starts_with(named.as_str()) {
                attempt.about = format!("{} ({})", attempt.about, id.get(..8).unwrap_or(&id));
            }
            if let Some(last) = attempt.arguments.last_mut() {
                *last = Text::Plain(id);
            }
        }
        Ok(())
    }

    fn insert_like(&self, experiment: &mut Experiment, name: &str) -> Result<(), EngineError> {
        let mut number = 1;
        loop {
            experiment.name = if number == 1 { name.to_owned() } else { format!("{name}-{number}") };
            match self.ground.store.insert_experiment(experiment) {
                Err(StoreError::ExperimentTaken { .. }) => number += 1,
                other => return Ok(other?),
            }
        }
    }
}
