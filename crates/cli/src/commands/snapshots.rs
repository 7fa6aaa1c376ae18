//! `whatif snapshots`.

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use whatif_engine::Engine;
use whatif_types::timestamp::age;

use super::Outcome;
use crate::output::{Output, Style, bytes, printable};
use crate::table;

/// List the snapshots of a sandbox, as the tree they make
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The sandbox: its name or the beginning of its id
    name: Option<String>,
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    let (sandbox, snapshots) = engine.snapshots(args.name.as_deref())?;
    output.document(&snapshots);
    if snapshots.is_empty() {
        output.note(format!("{} has no snapshots of its own; take one: whatif snapshot {}", sandbox.name, sandbox.name));
        if let Some(origin) = sandbox.details.position.made_from.as_deref() {
            output.note(format!("  it was made from {}", printable(origin)));
        }
        return Ok(ExitCode::SUCCESS);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64);
    let mut rows = vec![["SNAPSHOT", "FROM", "AGE", "FILES", "SIZE", "BY", "ABOUT"].map(|h| output.paint(Style::Dim, h)).to_vec()];
    for (position, listed) in snapshots.iter().enumerate() {
        // A line of descent is drawn straight down; only where it branches does it step to the side.
        let indent = "  ".repeat(branches_above(&snapshots, position));
        let mark = if listed.is_current { output.paint(Style::Green, "●") } else { "○".to_owned() };
        let snapshot = &listed.document;
        rows.push(vec![
            format!("{indent}{mark} {}", output.paint(Style::Bold, &snapshot.label)),
            listed.parent_label.clone().unwrap_or_default(),
            age(now.saturating_sub(listed.created_ms)),
            listed.files.to_string(),
            bytes(listed.bytes),
            snapshot.made_by.to_string(),
            printable(snapshot.message.as_deref().unwrap_or_default()),
        ]);
    }
    output.line(table::render(&rows));
    Ok(ExitCode::SUCCESS)
}

/// How many forks in the tree lie on the way to a snapshot: each but the first child of one steps aside.
fn branches_above(all: &[whatif_engine::snapshots::Listed], position: usize) -> usize {
    let mut branches = 0;
    let mut current = position;
    loop {
        let depth = all[current].depth;
        let Some(parent) = (0..current).rev().find(|i| all[*i].depth < depth) else { return branches };
        if (parent + 1..current).any(|i| all[i].depth == depth) {
            branches += 1;
        }
        current = parent;
    }
}
