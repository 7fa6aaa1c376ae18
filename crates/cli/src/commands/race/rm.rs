use crate::exit::ExitCode;

use serde_json::json;
use whatif_engine::ground::GroundError;
use whatif_engine::races::Experiment;
use whatif_engine::{Engine, EngineError, StoreError};

use crate::commands::{Outcome, rm};
use crate::failure::Failure;
use crate::output::{Output, counted};

/// Remove races, with the sandboxes of all their attempts
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The races
    #[arg(value_name = "RACE", required_unless_present = "all")]
    names: Vec<String>,
    /// Remove all races of all projects
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
}

/// Nothing of a race is real, but it may be hours of work.
fn agreed(engine: &Engine, args: &Args) -> Result<bool, Failure> {
    let names: Vec<String> = match args.all {
        true => engine.races.races()?.into_iter().map(|race| race.name).collect(),
        false => args.names.clone(),
    };
    // Before the question, not after it.
    for name in &args.names {
        match engine.races.find_race(Some(name)) {
            Err(EngineError::Ground(GroundError::Store(StoreError::Malformed(_)))) => {}
            other => _ = other?,
        }
    }
    let what = counted(names.len() as u64, "race");
    Ok(names.is_empty() || rm::agreed(&format!("Remove {what} with the sandboxes of all attempts ({})?", names.join(", ")))?)
}

/// Those that can be read; the records of others go at once.
fn readable(engine: &Engine, names: &[String], output: &Output) -> Result<Vec<Experiment>, EngineError> {
    let mut found = Vec::new();
    for name in names {
        match engine.races.find_race(Some(name)) {
            Err(EngineError::Ground(GroundError::Store(StoreError::Malformed(_)))) => {
                engine.races.remove_unreadable_race(name)?;
                output
                    .line(format!("the record of race {name}, which could not be read, is gone; its sandboxes are in 'whatif ls'"));
            }
            other => found.push(other?),
        }
    }
    Ok(found)
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    if !args.yes && rm::asks_a_person() && !agreed(engine, args)? {
        output.note("nothing was removed");
        return Ok(ExitCode::FAILURE);
    }
    let experiments = if args.all { engine.races.races()? } else { readable(engine, &args.names, output)? };
    // One that cannot be removed does not keep the others.
    let mut removed = Vec::new();
    let mut first_failure = None;
    for experiment in experiments {
        match engine.races.remove_race(&experiment) {
            Ok(()) => {
                output.line(format!("race {} is gone", experiment.name));
                removed.push(experiment.name);
            }
            Err(error) => {
                if let Some(earlier) = first_failure.replace(error) {
                    output.error(&earlier);
                }
            }
        }
    }
    engine.races.look_after_races();
    output.document(&json!({ "removed": removed }));
    first_failure.map_or(Ok(ExitCode::SUCCESS), |error| Err(error.into()))
}
