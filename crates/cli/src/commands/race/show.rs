use crate::exit::ExitCode;

use whatif_engine::races::Experiment;
use whatif_engine::{Engine, EngineError};

use crate::commands::Outcome;
use crate::output::Output;
use crate::race::{self, Detail, Shown};

/// Compare the attempts of a race side by side
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The race; by default the latest of this project
    name: Option<String>,
    /// The race; the same as NAME
    #[arg(long, value_name = "NAME", conflicts_with = "name")]
    race: Option<String>,
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    let experiment = engine.races.find_race(args.name.as_deref().or(args.race.as_deref()))?;
    show(engine, &experiment, output)?;
    Ok(ExitCode::SUCCESS)
}

pub fn show(engine: &Engine, experiment: &Experiment, output: &Output) -> Result<(), EngineError> {
    let ranking = engine.races.ranking(experiment);
    let (standing, is_latest) = (engine.races.standing(experiment)?, is_latest(engine, experiment));
    let shown = Shown { experiment, ranking: &ranking, standing, is_latest };
    if output.json {
        output.document(&shown.document());
    } else {
        race::report(shown, Detail::Full, output);
    }
    Ok(())
}

/// Whether commands that name no race mean this one.
pub fn is_latest(engine: &Engine, experiment: &Experiment) -> bool {
    engine.races.find_race(None).is_ok_and(|latest| latest.id == experiment.id)
}
