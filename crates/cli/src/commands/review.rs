//! `whatif review`.

use crate::exit::ExitCode;

use whatif_engine::Engine;
use whatif_engine::changes::diff::Subject;

use super::{Outcome, meant};
use crate::failure::Failure;
use crate::foreground;
use crate::output::{Output, Style};
use crate::review::{self, App, End, Theme};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  whatif review                     the latest sandbox of this project; ? shows the keys\n  whatif review swift-otter --json  what was decided so far"
)]
pub struct Args {
    /// The sandbox: its name or the beginning of its id
    name: Option<String>,
    /// Click to choose, scroll with the wheel
    #[arg(long)]
    mouse: bool,
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    if !output.json && !foreground::is_interactive() {
        return Err(Failure::usage(
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
        output.line(format!("{} changed nothing", diff.title));
        return Ok(ExitCode::SUCCESS);
    }
    let (end, app) = review::run(engine, diff, Theme { colour: output.colours_output() }, args.mouse)?;
    report(&app, output);
    Ok(match end {
        End::Quit => ExitCode::SUCCESS,
        End::Signal(number) => ExitCode::from(128_u8.saturating_add(u8::try_from(number).unwrap_or(0))),
    })
}

fn report(app: &App, output: &Output) {
    let tally = app.decisions.tally();
    let part = if tally.partly > 0 { format!(", {} in part", tally.partly) } else { String::new() };
    let name = output.paint(Style::Bold, &app.subject.name);
    output.line(format!("{name}: {} accepted, {} rejected{part}, {} undecided", tally.accepted, tally.rejected, tally.undecided));
    if tally.decided() > 0 {
        output.line(format!("next: {}", output.paint(Style::Bold, app.next_step())));
    }
}
