use crate::exit::ExitCode;

use whatif_engine::ground::GroundError;
use whatif_engine::races::{Claimed, Experiment, RaceError};
use whatif_engine::{Engine, EngineError};
use whatif_types::experiment::Verdict;
use whatif_types::explain::whole_message;

use super::Which;
use crate::commands::Outcome;
use crate::commands::apply::{self, Ending};
use crate::failure::Failure;
use crate::output::{Output, Style, counted};

/// Apply an attempt to reality
///
/// Goes through the same review and checks as every apply. After a complete apply, the sandboxes of the others are removed, except those that you have worked in since.
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
    // Held until it is real and noted: nobody merges or runs anything of it meanwhile.
    let claimed = engine.races.claim_race(&args.which.find(engine)?)?;
    let experiment = &claimed.experiment;
    let number = engine.races.find_attempt(experiment, args.apply.name().unwrap_or("best"))?;
    let sandbox = engine.races.sandbox_of(experiment, number)?;
    let doubt = doubt(engine, experiment, number)?;
    if doubt == Some(CHANGED) && args.apply.name() == Some("best") {
        return Err(RaceError::ChangedSince { attempt: experiment.details.plan.attempts[number].name.clone() }.into());
    }
    let note = |text: String| output.note(format!("{} {text}", output.paint_note(Style::Yellow, "whatif:")));
    if let Some(doubt) = doubt {
        let name = &experiment.details.plan.attempts[number].name;
        note(format!("'{name}' {doubt}; the other attempts stay"));
    }
    let takes_ignored = args.apply.takes_ignored();
    let ending = apply::perform(engine, &args.apply.of(sandbox.name), output).map_err(|failure| match failure {
        Failure::Engine(EngineError::Ground(GroundError::Removed { .. } | GroundError::NoSuchSandbox { .. })) => {
            engine.races.overtaken(experiment, number).into()
        }
        other => other,
    })?;
    let Ending::Applied { is_whole, interrupted } = ending else {
        return Ok(if let Ending::Refused(code) = ending { code } else { ExitCode::SUCCESS });
    };
    let changes = experiment.records[number].outcome.as_ref().map(|outcome| &outcome.changes);
    if !takes_ignored && changes.is_some_and(|changes| changes.ignored > 0) {
        let again = format!("whatif race apply {} --ignored", experiment.details.plan.attempts[number].name);
        note(format!("its checks ran with ignored files that were not applied. Rebuild them, or apply them too: {again}"));
    }
    // What is real is real, whatever can be noted about it.
    let noted = if is_whole && doubt.is_none() && !args.keep {
        settle(engine, claimed, number, output)
    } else {
        engine.races.note_applied(claimed, number)
    };
    if let Err(error) = noted {
        note(format!("it is applied, but the race could not be tidied up: {}", whole_message(&error)));
    }
    Ok(apply::after(interrupted))
}

const CHANGED: &str = "was changed since it was judged";

/// Why what is applied may not be what a winner is.
fn doubt(engine: &Engine, experiment: &Experiment, number: usize) -> Result<Option<&'static str>, EngineError> {
    let outcome = experiment.records[number].outcome.as_ref();
    if outcome.is_none_or(|outcome| outcome.verdict != Verdict::Passed) {
        return Ok(Some("does not pass"));
    }
    if !engine.races.is_as_judged(experiment, number)? {
        return Ok(Some(CHANGED));
    }
    Ok((!experiment.is_ended()).then_some("is of a race that has not ended"))
}

/// What is real needs no sandboxes any more.
fn settle(engine: &Engine, claimed: Claimed, number: usize, output: &Output) -> Result<(), EngineError> {
    let race = claimed.experiment.name.clone();
    let settled = engine.races.settle_race(claimed, number)?;
    let note = |text: String| output.note(format!("{} {text}", output.paint_note(Style::Dim, "whatif:")));
    if settled.removed > 0 {
        note(format!("{} of race {race} removed", counted(settled.removed as u64, "sandbox")));
    }
    for (name, why) in settled.kept {
        note(format!("{name} {why} and was kept; to remove it: whatif rm {name}"));
    }
    Ok(())
}
