//! Records what is to be raced. Everything that can be wrong about it is found here, before anything runs.

use std::collections::HashSet;
use std::path::Path;

use whatif_diff::pattern::Patterns;
use whatif_race::metric::Extractor;
use whatif_race::rank::BUILT_IN;
use whatif_store::StoreError;
use whatif_types::experiment::{Attempt, Experiment, ExperimentDetails, ExperimentPlan, Kind};
use whatif_types::text::Text;
use whatif_types::{ExperimentId, name};

use super::RaceError;
use crate::create::{new_id, with_a_name};
use crate::git::Git;
use crate::{Engine, EngineError, NewSandbox, now};

/// More than anybody can look at.
const MOST_ATTEMPTS: usize = 1000;
const MOST_REPEATS: u32 = 100;

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

impl Engine {
    /// Records a race. Nothing runs yet.
    pub fn new_race(&self, new: NewRace) -> Result<Experiment, EngineError> {
        let NewRace { name, mut plan, sandbox } = new;
        if let RaceName::Exactly(given) | RaceName::LikeThis(given) = &name {
            name::validate(given)?;
        }
        let validated = self.validate(&sandbox)?;
        check_plan(&plan)?;
        self.pin_commits(&mut plan, &validated.project)?;
        Patterns::new(&plan.protect, &[&validated.project])?;
        if !sandbox.publish.is_empty() {
            return Err(RaceError::usage("a port can lead to one sandbox only", "leave out --publish").into());
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
                self.store.insert_experiment(&experiment)?;
            }
            RaceName::LikeThis(name) => self.insert_like(&mut experiment, &name)?,
            RaceName::Generated => with_a_name(None, |name| {
                experiment.name = name.to_owned();
                // One that is taken is followed by another one.
                self.store.insert_experiment(&experiment).map_err(|error| match error {
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
        let Ok(git) = Git::find(project, &self.context.home, self.context.is_root()) else { return Ok(()) };
        for attempt in plan.attempts.iter_mut().filter(|attempt| attempt.kind == Kind::Revert) {
            let Some(Text::Plain(named)) = attempt.arguments.last() else { continue };
            let commit = format!("{named}^{{commit}}");
            let found = git.read(&["rev-parse", "--verify", "--quiet", "--end-of-options", &commit]);
            let Ok(id) = found else {
                let message = format!("there is no commit '{}' to take back", named.escape_debug());
                return Err(RaceError::usage(message, "'git log' lists them").into());
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
            match self.store.insert_experiment(experiment) {
                Err(StoreError::ExperimentTaken { .. }) => number += 1,
                other => return Ok(other?),
            }
        }
    }
}

fn check_plan(plan: &ExperimentPlan) -> Result<(), RaceError> {
    if plan.attempts.is_empty() {
        return Err(RaceError::usage(
            "there is nothing to race",
            "name some attempts: whatif race 'COMMAND' 'COMMAND' --check 'COMMAND', or write an experiment.toml",
        ));
    }
    if plan.attempts.len() > MOST_ATTEMPTS {
        let message = format!("{} attempts are too many, {MOST_ATTEMPTS} is the most", plan.attempts.len());
        return Err(RaceError::usage(message, "race them in groups"));
    }
    unique("attempt", plan.attempts.iter().map(|a| a.name.as_str()))?;
    unique("check", plan.checks.iter().map(|c| c.name.as_str()))?;
    unique("metric", plan.metrics.iter().map(|m| m.name.as_str()).chain(BUILT_IN))?;
    for attempt in &plan.attempts {
        if matches!(attempt.name.as_str(), "best" | "setup" | "judge") || name::validate(&attempt.name).is_err() {
            let message = format!("'{}' cannot be the name of an attempt", attempt.name.escape_debug());
            return Err(RaceError::usage(
                message,
                "letters, digits, '-', '_' and '.'; 'best', 'setup' and 'judge' have a meaning of their own",
            ));
        }
    }
    if plan.checks.iter().any(|check| check.run.trim().is_empty()) {
        return Err(RaceError::usage("a check that is empty would pass whatever happens", "say what to run: --check 'COMMAND'"));
    }
    if !(1..=MOST_REPEATS).contains(&plan.repeats) {
        return Err(RaceError::usage(
            format!("checks are repeated 1 to {MOST_REPEATS} times"),
            "choose another number: --repeats 3",
        ));
    }
    if plan.jobs == Some(0) {
        return Err(RaceError::usage("with --jobs 0 nothing would run", "leave it out, or give it a number from 1 on"));
    }
    for metric in &plan.metrics {
        if let Err(error) = Extractor::new(metric) {
            return Err(RaceError::usage(format!("metric '{}': {error}", metric.name), "a regular expression, or $.path.in.json"));
        }
        if let Some(check) = metric.check.as_ref().filter(|name| !plan.checks.iter().any(|c| c.name == **name)) {
            return Err(RaceError::usage(
                format!("metric '{}' reads from a check '{check}' that there is not", metric.name),
                "name one of the checks",
            ));
        }
    }
    if !plan.metrics.is_empty() && plan.checks.is_empty() {
        return Err(RaceError::usage("metrics are read from what checks print, and there is none", "add one: --check 'COMMAND'"));
    }
    for (metric, weight) in &plan.weights {
        if !BUILT_IN.contains(&metric.as_str()) && !plan.metrics.iter().any(|m| m.name == *metric) {
            let known = BUILT_IN.iter().copied().chain(plan.metrics.iter().map(|m| m.name.as_str())).collect::<Vec<_>>().join(", ");
            return Err(RaceError::usage(format!("there is no metric '{metric}' to weigh"), format!("there are {known}")));
        }
        if !weight.is_finite() || *weight < 0.0 {
            return Err(RaceError::usage(format!("{weight} is no weight"), "a weight is a number from 0 on"));
        }
    }
    Ok(())
}

fn unique<'a>(what: &str, names: impl Iterator<Item = &'a str>) -> Result<(), RaceError> {
    let mut seen = HashSet::new();
    for name in names {
        if !seen.insert(name) {
            return Err(RaceError::usage(
                format!("there are two of {what} '{}'", name.escape_debug()),
                "give one of them another name",
            ));
        }
    }
    Ok(())
}
