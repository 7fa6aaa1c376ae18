//! `whatif rollback`.

use crate::exit::ExitCode;

use serde_json::json;
use whatif_engine::history::snapshots::Document;
use whatif_engine::lifecycle::shift::Live;
use whatif_engine::{Engine, EngineError};

use super::snapshot::{tell_ended, tell_stopped};
use super::{Outcome, meant};
use crate::failure::Failure;
use crate::output::{Output, Style};

#[derive(Debug, clap::Args)]
#[command(override_usage = "whatif rollback [OPTIONS] [NAME] <LABEL>")]
#[command(
    after_help = "Examples:\n  whatif rollback green             the latest sandbox of this project\n  whatif rollback swift-otter @-1   to its latest snapshot; @-2 is the one before"
)]
pub struct Args {
    /// The sandbox, then the label (or @-1, @-2, …); a single word is a label of the latest sandbox of this project
    #[arg(value_name = "LABEL", num_args = 1..=2, required = true)]
    words: Vec<String>,
    /// How to treat running processes: stop (end them), or refuse to roll back
    #[arg(long, value_name = "stop|refuse", value_parser = live, default_value = "stop")]
    live: Live,
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    let (name, label) = match args.words.as_slice() {
        [name, label, ..] => (Some(name.as_str()), label.as_str()),
        // `whatif rollback NAME@LABEL` says both at once.
        [word] => match word.split_once('@').filter(|(name, _)| !name.is_empty()) {
            Some((name, _)) => (Some(name), word.as_str()),
            None if engine.changes.is_sandbox(word)? => return Err(which(engine, word)?),
            None => (None, word.as_str()),
        },
        [] => (None, ""),
    };
    let done = engine.history.roll_back(&meant(engine, name)?, label, args.live)?;
    let name = &done.sandbox.name;
    output.document(&json!({ "sandbox": name, "to": Document::of(&done.to, &done.sandbox), "before": done.before.as_ref().map(|b| Document::of(b, &done.sandbox)), "ended": done.ended }));
    output.line(format!("{} is back at {}", output.paint(Style::Bold, name), output.paint(Style::Bold, &done.to.label)));
    tell_ended(&done.ended, output);
    tell_stopped(done.stopped, output);
    if let Some(before) = &done.before {
        output.note(format!("  what it was before is kept; return to that: whatif rollback {name} {}", before.label));
    }
    Ok(ExitCode::SUCCESS)
}

fn live(text: &str) -> Result<Live, String> {
    match text {
        "stop" => Ok(Live::Stop),
        "refuse" => Ok(Live::Refuse),
        other => Err(format!("'{other}' is not one of stop, refuse")),
    }
}

/// Whoever names only the sandbox has to be asked for the snapshot.
fn which(engine: &Engine, name: &str) -> Result<Failure, EngineError> {
    let labels: Vec<String> = engine.history.snapshots(&name.into())?.1.into_iter().map(|l| l.document.label).collect();
    let hint = match labels.as_slice() {
        [] => format!("it has none yet; take one: whatif snapshot {name}"),
        [.., last] => format!("it has {}; for example: whatif rollback {name} {last}   (@-1 is the latest)", labels.join(", ")),
    };
    Ok(Failure::usage("missing_argument", format!("no snapshot given for '{name}'"), hint))
}
