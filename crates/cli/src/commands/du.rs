//! `whatif du`.

use std::process::ExitCode;

use whatif_engine::Engine;
use whatif_engine::usage::Usage;

use super::Outcome;
use crate::output::{Output, Style, bytes, visible_path};
use crate::table;

/// Show what takes how much room on the disk
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only this sandbox, with its snapshots
    name: Option<String>,
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    let usage = engine.usage(args.name.as_deref())?;
    output.document(&usage);
    if !output.json {
        show(&usage, args.name.is_some(), output);
    }
    Ok(ExitCode::SUCCESS)
}

fn show(usage: &Usage, with_snapshots: bool, output: &Output) {
    let mut rows = vec![["NAME", "HEAD", "LAYERS", "ITS OWN", "SNAPSHOTS"].map(|h| output.paint(Style::Dim, h)).to_vec()];
    for s in &usage.sandboxes {
        rows.push(vec![
            output.paint(Style::Bold, &s.name),
            bytes(s.head_bytes),
            bytes(s.layers_bytes),
            bytes(s.own_bytes),
            s.snapshots.len().to_string(),
        ]);
        for snapshot in s.snapshots.iter().filter(|_| with_snapshots) {
            rows.push(vec![
                format!("  @{}", snapshot.label),
                String::new(),
                bytes(snapshot.layer_bytes),
                bytes(snapshot.own_bytes),
            ]);
        }
    }
    for t in usage.templates.iter().filter(|_| !with_snapshots) {
        rows.push(vec![
            format!("{} (template)", output.paint(Style::Bold, &t.name)),
            String::new(),
            bytes(t.layers_bytes),
            bytes(t.own_bytes),
        ]);
    }
    if rows.len() > 1 {
        output.line(table::render(&rows));
    }
    output.line(format!(
        "{} in all: {} in layers, {} kept for undo; {} free",
        output.paint(Style::Bold, bytes(usage.total_bytes)),
        bytes(usage.layers_bytes),
        bytes(usage.applies_bytes),
        bytes(usage.free_bytes)
    ));
    for (name, hint) in usage.sandboxes.iter().filter_map(|s| s.hint.as_ref().map(|h| (&s.name, h))) {
        let directory = visible_path(&hint.directory);
        let advice = if hint.is_ignored {
            format!(" and ignored by the project: whatif exec {name} -- rm -rf {directory} frees {}", bytes(hint.bytes))
        } else {
            String::new()
        };
        output.note(format!("  {} {directory}/ is {} % of {name}{advice}", output.paint_note(Style::Cyan, "hint:"), hint.percent));
    }
    if let Some(alert) = &usage.alert {
        output.note(format!("{} {alert}; 'whatif gc --dry-run' shows what could go", output.paint_note(Style::Yellow, "whatif:")));
    }
}
