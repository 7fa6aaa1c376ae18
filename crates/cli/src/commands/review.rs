//! `whatif review`.

use crate::exit::ExitCode;

use whatif_engine::Engine;
use whatif_engine::changes::diff::Subject;

use super::{Outcome, meant};
use crate::changes;
use crate::failure::Failure;
use crate::foreground;
use crate::output::{Output, Style, counted};
use crate::review::{self, App, End, Theme};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  whatif review                     the latest sandbox of this project; ? shows the keys\n  whatif review swift-otter --json  what was decided so far"
)]
pub struct Args {
    /// The sandbox, by name or the beginning of its id
    name: Option<String>,
    /// Select by clicking, scroll with the wheel
    #[arg(long)]
    mouse: bool,
}

impl Args {
    /// Of this sandbox, as it is usual.
    pub fn of(name: String) -> Self {
        Self { name: Some(name), mouse: false }
    }
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    if !output.json && !foreground::is_interactive() {
        return Err(Failure::usage(
            "needs_terminal",
            "a review needs a terminal",
            "without one, choose with: whatif apply --files GLOB --hunks FILE:N,M (or see what was decided: whatif review --json)",
        ));
    }
    let diff = engine.changes.diff(&Subject::Sandbox(meant(engine, args.name.as_deref())?), whatif_engine::Depth::Review)?;
    if output.json {
        output.document(&review::document(&diff, &engine.changes.review(&diff.sandbox, &diff.set)?));
        return Ok(ExitCode::SUCCESS);
    }
    if diff.set.changes.is_empty() {
        output.line(changes::nothing_in_words(&diff));
        return Ok(ExitCode::SUCCESS);
    }
    let (end, app) = review::run(engine, diff, Theme { colour: output.colours_output() }, args.mouse)?;
    report(&app, end, output);
    Ok(match end {
        End::Apply => {
            let args = super::apply::Args::accepted(app.subject.name.clone(), app.takes_outside());
            return super::apply::execute(engine, &args, output);
        }
        End::Quit => ExitCode::SUCCESS,
        End::Signal(number) => ExitCode::from(128_u8.saturating_add(u8::try_from(number).unwrap_or(0))),
    })
}

fn report(app: &App, end: End, output: &Output) {
    let tally = app.decisions.tally();
    let part = if tally.partly > 0 { format!(", {} in part", tally.partly) } else { String::new() };
    let name = output.paint(Style::Bold, &app.subject.name);
    output.line(format!("{name}: {} accepted, {} rejected{part}, {} undecided", tally.accepted, tally.rejected, tally.undecided));
    if !app.subject.conflicts.is_empty() {
        let conflicts = counted(app.subject.conflicts.len() as u64, "path");
        output.line(format!("{conflicts} in conflict with reality; to see which: whatif status {}", app.subject.name));
    }
    if tally.decided() > 0 && end != End::Apply {
        output.line(format!("next: {}", output.paint(Style::Bold, app.next_step())));
    }
}
