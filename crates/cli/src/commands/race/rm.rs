use std::process::ExitCode;

use serde_json::json;
use whatif_engine::race::Experiment;
use whatif_engine::{Engine, EngineError, StoreError};

use crate::commands::Outcome;
use crate::output::Output;

/// Remove races, with the sandboxes of all their attempts
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The races; by default the latest of this project
    #[arg(value_name = "RACE")]
    names: Vec<String>,
    /// All of them, of all projects
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// Accepted for likeness with `whatif rm`; nobody is asked
    #[arg(long, short, hide = true)]
    yes: bool,
}

/// Those that can be read; the records of others go at once.
fn readable(engine: &Engine, names: &[String], output: &Output) -> Result<Vec<Experiment>, EngineError> {
    let mut found = Vec::new();
    for name in names {
        match engine.find_race(Some(name)) {
            Err(EngineError::Store(StoreError::Malformed(_))) => {
                engine.remove_unreadable_race(name)?;
                output
                    .line(format!("the record of race {name}, which could not be read, is gone; its sandboxes are in 'whatif ls'"));
            }
            other => found.push(other?),
        }
    }
    Ok(found)
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    let experiments = match args.names.as_slice() {
        _ if args.all => engine.races()?,
        [] => vec![engine.find_race(None)?],
        names => readable(engine, names, output)?,
    };
    // One that cannot be removed does not keep the others.
    let mut removed = Vec::new();
    let mut first_failure = None;
    for experiment in experiments {
        match engine.remove_race(&experiment) {
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
    crate::commands::in_background(&["tidy", "--layers"]);
    output.document(&json!({ "removed": removed }));
    first_failure.map_or(Ok(ExitCode::SUCCESS), Err)
}
