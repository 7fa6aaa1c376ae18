use crate::exit::ExitCode;

use whatif_engine::Engine;
use whatif_engine::races::Ranking;

use crate::commands::Outcome;
use crate::output::Output;
use crate::race::{self, Shown};

/// List races
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Include all projects
    #[arg(long)]
    all: bool,
    /// Print names only
    #[arg(long, short)]
    quiet: bool,
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    let project = engine.caller().project_of(&engine.caller().cwd)?;
    let races: Vec<_> = engine.races.races()?.into_iter().filter(|race| args.all || race.project == project).collect();
    let rankings: Vec<Ranking> = races.iter().map(|race| engine.races.ranking(race)).collect();
    let mut shown = Vec::new();
    for (number, (experiment, ranking)) in races.iter().zip(&rankings).enumerate() {
        let is_latest = races.iter().position(|race| race.project == experiment.project) == Some(number);
        shown.push(Shown { experiment, ranking, standing: engine.races.standing(experiment)?, is_latest });
    }
    if args.quiet {
        races.iter().for_each(|race| output.line(&race.name));
    } else {
        race::list(&shown, output);
    }
    output.document(&shown.iter().map(|shown| shown.document()).collect::<Vec<_>>());
    Ok(ExitCode::SUCCESS)
}
