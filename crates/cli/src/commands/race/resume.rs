use whatif_engine::Engine;
use whatif_engine::races::Event;

use super::{Variables, Which, watch};
use crate::commands::Outcome;
use crate::output::Output;

/// Continue an interrupted race
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The race; by default the latest of this project
    name: Option<String>,
    /// The race; the same as NAME
    #[arg(long, value_name = "NAME", conflicts_with = "name")]
    race: Option<String>,
    #[command(flatten)]
    variables: Variables,
}

/// Run attempts again
///
/// Their results so far are forgotten and their sandboxes removed; the others are compared with what they come to now.
#[derive(Debug, clap::Args)]
pub struct RerunArgs {
    /// The attempts; by default all of them
    #[arg(value_name = "ATTEMPT")]
    attempts: Vec<String>,
    #[command(flatten)]
    which: Which,
    #[command(flatten)]
    variables: Variables,
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    let experiment = engine.races.find_race(args.name.as_deref().or(args.race.as_deref()))?;
    // Whoever resumes after a crash cannot know that it was through.
    if experiment.is_ended() {
        let ranking = engine.races.ranking(&experiment);
        let code = watch::by_winner(&ranking);
        if output.json {
            let (race, spent_ms) = (experiment.name.clone(), experiment.details.spent_ms);
            watch::tell_program(&Event::Ended { race, ranking, spent_ms, interrupted: false }, output);
        } else {
            super::show::show(engine, &experiment, output)?;
        }
        return Ok(code);
    }
    watch::run(engine, &experiment, &args.variables.env, output)
}

pub fn rerun(engine: &Engine, args: &RerunArgs, output: &Output) -> Outcome {
    let experiment = args.which.find(engine)?;
    engine.races.check_race_env(&experiment, &args.variables.env)?;
    let experiment = engine.races.reset_race(&experiment, &args.attempts)?;
    watch::run(engine, &experiment, &args.variables.env, output)
}
