//! `whatif snapshots`.

mod tree;

use crate::exit::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use whatif_engine::Engine;
use whatif_engine::history::snapshots::{Elsewhere, Listed};
use whatif_types::timestamp::age;

use self::tree::Branch;
use super::{Outcome, meant};
use crate::output::{Output, Style, bytes, printable};
use crate::table;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The sandbox, by name or the beginning of its id
    name: Option<String>,
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    let (sandbox, snapshots) = engine.history.snapshots(&meant(engine, args.name.as_deref())?)?;
    output.document(&snapshots);
    let made_from = sandbox.details.position.made_from.as_deref();
    if snapshots.is_empty() {
        output.note(format!("{} has no snapshots of its own; take one: whatif snapshot {}", sandbox.name, sandbox.name));
        if let Some(origin) = made_from {
            output.note(format!("  it was made from {}", printable(origin)));
        }
    } else {
        output.line(table::render(&rows(&snapshots, output)));
    }
    let elsewhere = engine.history.stands_at_another(&sandbox)?;
    // Of one that has none and never left where it began, that was just told.
    let untold = elsewhere.filter(|there| !snapshots.is_empty() || made_from != Some(there.name().as_str()));
    if let Some(there) = untold {
        output.line(standing(&there));
    }
    Ok(ExitCode::SUCCESS)
}

fn standing(there: &Elsewhere) -> String {
    let owner = if there.is_origin { "the sandbox it was made from" } else { "a sandbox it descends from" };
    format!("at {}, of {owner}", there.name())
}

fn rows(snapshots: &[Listed], output: &Output) -> Vec<Vec<String>> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64);
    let depths: Vec<usize> = snapshots.iter().map(|s| s.depth).collect();
    let header = ["SNAPSHOT", "AGE", "FILES", "SIZE", "BY", "ABOUT"].map(|h| output.paint(Style::Dim, h)).to_vec();
    let row = |(listed, branch): (&Listed, Branch)| {
        let snapshot = &listed.document;
        vec![
            in_the_tree(listed, &branch, output),
            age(now.saturating_sub(listed.created_ms)),
            listed.files.to_string(),
            bytes(listed.bytes),
            snapshot.made_by.to_string(),
            printable(snapshot.message.as_deref().unwrap_or_default()),
        ]
    };
    [header].into_iter().chain(snapshots.iter().zip(tree::branches(&depths)).map(row)).collect()
}

fn in_the_tree(listed: &Listed, branch: &Branch, output: &Output) -> String {
    let mark = if listed.is_current { output.paint(Style::Green, "●") } else { "○".to_owned() };
    let label = output.paint(Style::Bold, &listed.document.label);
    match &listed.parent_label {
        Some(parent) if branch.is_cramped => format!("{}{mark} {label} (from {parent})", branch.lines),
        _ => format!("{}{mark} {label}", branch.lines),
    }
}
