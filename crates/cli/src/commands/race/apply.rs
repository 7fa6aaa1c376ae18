use std::process::ExitCode;

use whatif_engine::race::{Experiment, RaceError, Standing};
use whatif_engine::{Engine, EngineError};
use whatif_types::experiment::Verdict;

use super::Which;
use crate::commands::apply::{self, Ending};
use crate::commands::{Outcome, in_background};
use crate::output::{Output, Style, counted};

/// Make an attempt real
///
/// Goes through the same review and checks as every apply. When all of it is real, the sandboxes of the others are removed.
#[derive(Debug, clap::Args)]
#[group(skip)]
#[command(mut_arg("name", |arg| arg.value_name("ATTEMPT").required(true).help("The attempt; 'best' is the winner")))]
#[command(
    after_help = "Examples:\n  whatif race apply best                    look at a summary, then decide\n  whatif race apply fix --files 'src/*'     only these; the other attempts stay\n  whatif race apply best --dry-run          only the plan"
)]
pub struct Args {
    #[command(flatten)]
    which: Which,
    /// Keep the sandboxes of the other attempts
    #[arg(long)]
    keep: bool,
    #[command(flatten)]
    apply: apply::Args,
}

pub fn execute(engine: &Engine, args: Args, output: &Output) -> Outcome {
    let mut experiment = args.which.find(engine)?;
    if engine.standing(&experiment)? == Standing::Running {
        return Err(RaceError::UnderWay { name: experiment.name }.into());
    }
    let number = engine.find_attempt(&experiment, args.apply.name().unwrap_or("best"))?;
    let sandbox = engine.sandbox_of(&experiment, number)?;
    let passes = experiment.records[number].outcome.as_ref().is_some_and(|outcome| outcome.verdict == Verdict::Passed);
    if !passes {
        let name = &experiment.details.plan.attempts[number].name;
        output.note(format!("{} '{name}' does not pass; the other attempts stay", output.paint_note(Style::Yellow, "whatif:")));
    }
    let is_whole = args.apply.takes_the_whole();
    match apply::perform(engine, &args.apply.of(sandbox.name), output)? {
        Ending::Applied if is_whole && passes && !args.keep => settle(engine, &mut experiment, number, output)?,
        Ending::Applied => engine.note_applied(&mut experiment, number)?,
        Ending::Nothing => {}
        Ending::Refused(code) => return Ok(code),
    }
    Ok(ExitCode::SUCCESS)
}

/// What is real needs no sandboxes any more.
fn settle(engine: &Engine, experiment: &mut Experiment, number: usize, output: &Output) -> Result<(), EngineError> {
    let removed = engine.settle_race(experiment, number)?;
    in_background(&["tidy", "--layers"]);
    let sandboxes = counted(removed as u64, "sandbox").replace("sandboxs", "sandboxes");
    output.note(format!("{} {sandboxes} of race {} removed", output.paint_note(Style::Dim, "whatif:"), experiment.name));
    Ok(())
}
