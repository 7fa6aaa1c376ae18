//! `whatif gc`.

use std::process::ExitCode;

use whatif_engine::{Collected, Engine};

use super::Outcome;
use crate::output::{Output, Style, bytes, counted, printable};
use crate::table;

/// Reconcile the records with what is really there, and remove what nothing needs
#[derive(Debug, clap::Args)]
pub struct Args {
    /// Say what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    let collected = engine.collect(args.dry_run)?;
    output.document(&collected);
    for name in &collected.found_stopped {
        output.line(format!("{name} had stopped unnoticed; its changes are intact"));
    }
    for name in &collected.forgotten {
        output.line(format!("{name} had no directory any more; its record is removed"));
    }
    for path in &collected.unknown {
        let shown = printable(&path.to_string_lossy());
        output.line(format!(
            "{} {shown} belongs to no record; look at it and delete it by hand if it holds nothing of value",
            output.paint(Style::Yellow, "unknown:")
        ));
    }
    let verb = if args.dry_run { "would go" } else { "gone" };
    for removal in &collected.snapshots {
        output.line(format!("{} {verb}: an old automatic snapshot", removal.owner.name()));
    }
    if !collected.layers.is_empty() {
        let count = counted(collected.layers.len() as u64, "layer");
        output.line(format!("{count} {verb} that nothing needs: {}", bytes(collected.freed_bytes)));
    }
    if args.dry_run {
        explain(&collected, output);
    }
    let has_news = [collected.found_stopped.len(), collected.forgotten.len(), collected.unknown.len(), collected.layers.len()];
    if has_news.iter().sum::<usize>() + collected.snapshots.len() == 0 {
        output.line("nothing to do");
    }
    Ok(ExitCode::SUCCESS)
}

/// What is kept and why, and what each removal would free.
fn explain(collected: &Collected, output: &Output) {
    if !collected.kept.is_empty() {
        let mut rows = vec![["LAYER", "SIZE", "NEEDED BY"].map(|h| output.paint(Style::Dim, h)).to_vec()];
        for layer in &collected.kept {
            let shown: Vec<&str> = layer.needed_by.iter().take(MOST_NAMED).map(|o| o.name()).collect();
            let more = layer.needed_by.len().saturating_sub(MOST_NAMED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            rows.push(vec![layer.layer.to_string(), bytes(layer.bytes), format!("{}{more}", shown.join(", "))]);
        }
        output.line(table::render(&rows));
    }
    for removal in collected.would_free.iter().filter(|r| r.bytes > 0).take(MOST_REMOVALS) {
        output.line(format!("removing {} would free {}", removal.owner.name(), bytes(removal.bytes)));
    }
}

const MOST_NAMED: usize = 4;
const MOST_REMOVALS: usize = 20;
