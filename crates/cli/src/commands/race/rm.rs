use std::process::ExitCode;

use serde_json::json;
use whatif_engine::Engine;

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

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    let experiments = match args.names.as_slice() {
        _ if args.all => engine.races()?,
        [] => vec![engine.find_race(None)?],
        names => names.iter().map(|name| engine.find_race(Some(name))).collect::<Result<_, _>>()?,
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
