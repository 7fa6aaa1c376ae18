//! `whatif snapshot` and `whatif snapshot rm`.

use crate::exit::ExitCode;

use serde_json::json;
use whatif_engine::ground::GroundError;
use whatif_engine::history::snapshot::{Disturbed, Take, Taken};
use whatif_engine::history::snapshots::Document;
use whatif_engine::lifecycle::shift::{How, Live, Stopped};
use whatif_engine::{Engine, EngineError, Entered, Process};
use whatif_types::MadeBy;

use super::{Outcome, meant};
use crate::failure::Failure;
use crate::output::{Output, Style, counted, printable};

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(override_usage = "whatif snapshot [OPTIONS] [NAME] [LABEL]\n       whatif snapshot rm <LABEL>...")]
#[command(
    after_help = "Examples:\n  whatif snapshot                   the latest sandbox of this project, label made up\n  whatif snapshot swift-otter green -m 'all tests pass'\n  whatif rollback swift-otter green\n  whatif snapshot rm swift-otter@green"
)]
pub struct Args {
    #[command(subcommand)]
    action: Option<Action>,
    /// The sandbox, then the label; a single word that is no sandbox is a label for the latest sandbox of this project
    #[arg(value_name = "LABEL", num_args = 0..=2)]
    words: Vec<String>,
    /// Description
    #[arg(long, short)]
    message: Option<String>,
    /// How to treat running processes: copy (they continue; the changes are copied), refuse, or stop (end them)
    #[arg(long, value_name = "copy|refuse|stop", value_parser = live, default_value = "copy")]
    live: Live,
    /// Wait until the snapshot would survive a power failure
    #[arg(long)]
    durable: bool,
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Remove snapshots; sandboxes made from them stay
    Rm {
        /// LABEL or NAME@LABEL
        #[arg(required = true)]
        labels: Vec<String>,
    },
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    match &args.action {
        Some(Action::Rm { labels }) => remove(engine, labels, output),
        None => take(engine, args, output),
    }
}

fn take(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    let (name, label) = match args.words.as_slice() {
        [] => (None, None),
        [word] if engine.changes.is_sandbox(word)? => (Some(word.as_str()), None),
        [word] => (None, Some(word.clone())),
        [name, label, ..] => (Some(name.as_str()), Some(label.clone())),
    };
    let request = Take { label, message: args.message.clone(), live: args.live, durable: args.durable, made_by: MadeBy::Request };
    let taken = engine.history.snapshot(&meant(engine, name)?, &request)?;
    tell(&taken, output);
    super::tell_disk_alert(engine, output);
    Ok(ExitCode::SUCCESS)
}

fn tell(taken: &Taken, output: &Output) {
    let (name, label) = (&taken.sandbox.name, &taken.snapshot.label);
    output.document(&json!({
        "sandbox": name,
        "snapshot": Document::of(&taken.snapshot, &taken.sandbox),
        "copied": was_copied(&taken.disturbed),
        "ended": taken.disturbed.ended,
    }));
    output.line(output.paint(Style::Bold, format!("{name}@{label}")));
    tell_disturbed(Some(&taken.disturbed), output);
    output.note(format!("  return to it: whatif rollback {name} {label}   start another from it: whatif fork {name}@{label}"));
}

pub fn was_copied(disturbed: &Disturbed) -> bool {
    matches!(disturbed.how, How::Copied { .. })
}

/// What a snapshot that was taken, asked for or not, meant for whoever was at work.
pub fn tell_disturbed(disturbed: Option<&Disturbed>, output: &Output) {
    let Some(Disturbed { how, ended, stopped }) = disturbed else { return };
    if let How::Copied { because } = how {
        output.note(format!("  its changes were copied, because {}", printable(because)));
    }
    tell_ended(ended, output);
    tell_stopped(*stopped, output);
}

/// Nor is the sandbox itself.
pub fn tell_stopped(stopped: Option<Stopped>, output: &Output) {
    let why = match stopped {
        Some(Stopped::FixedLayers) => "it was stopped for that, because its layers cannot be changed while it runs,",
        Some(Stopped::HalfWay) => "it was stopped, because it could not be put on its new layers as it ran,",
        None => return,
    };
    output.note(format!("  {why} and starts at its next use; what was in /tmp is gone"));
}

/// Nothing is ended without a word.
pub fn tell_ended(ended: &[Process], output: &Output) {
    if !ended.is_empty() {
        let commands: Vec<String> = ended.iter().take(3).map(|p| printable(&p.command)).collect();
        let more = if ended.len() > 3 { ", …" } else { "" };
        output.note(format!(
            "  {} ended: {}{more}",
            counted(ended.len() as u64, "process").replace("processs", "processes"),
            commands.join(", ")
        ));
    }
}

fn remove(engine: &Engine, labels: &[String], output: &Output) -> Outcome {
    let removed = engine.history.remove_snapshots(labels).map_err(|error| named_apart(engine, labels, error))?;
    output.document(&json!({ "removed": removed.iter().map(|(_, s)| &s.label).collect::<Vec<_>>() }));
    for (sandbox, snapshot) in &removed {
        output.line(format!("{}@{} is gone", sandbox.name, snapshot.label));
    }
    Ok(ExitCode::SUCCESS)
}

/// `snapshot` and `rollback` take a sandbox and a label; here several labels may be named, so each says whose it is.
fn named_apart(engine: &Engine, labels: &[String], error: EngineError) -> Failure {
    match (error, labels) {
        (EngineError::Ground(GroundError::NoSuchSnapshot { .. }), [name, label])
            if engine.changes.is_sandbox(name).unwrap_or(false) =>
        {
            Failure::usage(
                "invalid_value",
                format!("'{name}' is a sandbox, not a snapshot"),
                format!("one of its snapshots is named so: whatif snapshot rm {name}@{label}"),
            )
        }
        (error, _) => error.into(),
    }
}

pub fn live(text: &str) -> Result<Live, String> {
    match text {
        "copy" => Ok(Live::Copy),
        "refuse" => Ok(Live::Refuse),
        "stop" => Ok(Live::Stop),
        other => Err(format!("'{other}' is not one of copy, refuse, stop")),
    }
}

/// For `exec --auto-snapshot`. The sandbox is entered anew: the snapshot may have had to stop it. Returns the label, if one was
/// taken.
pub fn before_command(engine: &Engine, mut entered: Entered, output: &Output) -> Result<(Entered, Option<String>), Failure> {
    let label = match engine.history.snapshot_before_command(&mut entered) {
        Ok(None) => return Ok((entered, None)),
        Ok(Some(taken)) => {
            let (name, label) = (&taken.sandbox.name, &taken.snapshot.label);
            output.note(format!("{} step back with: whatif rollback {name} {label}", output.paint_note(Style::Dim, "whatif:")));
            label.clone()
        }
        // A command may be just what makes room again.
        Err(error @ EngineError::Ground(GroundError::NoRoom { .. })) => {
            output.note(format!("{} no snapshot was taken: {error}", output.paint_note(Style::Yellow, "whatif:")));
            return Ok((entered, None));
        }
        Err(error) => return Err(error.into()),
    };
    Ok((engine.lifecycle.enter(&entered.sandbox.name.as_str().into())?, Some(label)))
}
