//! `whatif ls`.

use crate::exit::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use whatif_engine::missing::in_words;
use whatif_engine::{Engine, Listed};
use whatif_types::Status;
use whatif_types::timestamp::{age, roughly};

use super::Outcome;
use crate::output::{Output, Style, bytes, counted, printable};
use crate::table;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// List only sandboxes of this project
    #[arg(long)]
    here: bool,
    /// List only sandboxes with this label
    #[arg(long, value_name = "KEY[=VALUE]")]
    label: Vec<String>,
    /// Print names only
    #[arg(long, short)]
    quiet: bool,
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    let mut recorded = engine.lifecycle.recorded_sandboxes()?;
    let unrecorded = engine.upkeep.unrecorded()?;
    if let Some(first) = unrecorded.first() {
        let count = counted(unrecorded.len() as u64, "sandbox").replace("sandboxs", "sandboxes");
        let place = printable(&first.parent().unwrap_or(first).to_string_lossy());
        output.warn(format!("whatif: {count} in {place} not in the records; to record them again: whatif gc --adopt"));
    }
    let unknown = engine.ground.unknown_layers()?.len();
    // Those of sandboxes that can be recorded again are no news.
    if unrecorded.is_empty() && unknown > 0 {
        let count = counted(unknown as u64, "layer");
        output.warn(format!("whatif: {count} in no record, as after a lost or restored database; see: whatif gc --dry-run"));
    }
    let all = recorded.len();
    // Nothing is looked at that is not shown.
    if args.here {
        let project = engine.caller().project_of(&engine.caller().cwd)?;
        recorded.retain(|s| s.project == project);
    }
    recorded.retain(|s| {
        args.label.iter().all(|wanted| match wanted.split_once('=') {
            Some((key, value)) => s.details.labels.get(key).is_some_and(|v| v == value),
            None => s.details.labels.contains_key(wanted),
        })
    });
    if args.quiet && !output.is_json() {
        recorded.iter().for_each(|s| output.line(&s.name));
        return Ok(ExitCode::SUCCESS);
    }
    let sandboxes = engine.lifecycle.list_of(recorded)?;
    output.document(&sandboxes);
    if args.quiet {
        return Ok(ExitCode::SUCCESS);
    }
    say_what_piles_up(engine, &sandboxes, output);
    if sandboxes.is_empty() {
        if all > 0 {
            let which = if args.label.is_empty() { "of this project" } else { "with such labels" };
            output.note(format!("no sandbox {which}; {all} in all"));
        } else if unrecorded.is_empty() && unknown == 0 {
            output.note("no sandboxes; make one: whatif run -- COMMAND");
        }
        return Ok(ExitCode::SUCCESS);
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64);
    let mut rows = vec![
        ["NAME", "STATUS", "AGE", "CHANGED", "SIZE", "PIDS", "GOES IN", "PROJECT"].map(|h| output.paint(Style::Dim, h)).to_vec(),
    ];
    for s in &sandboxes {
        let style = if s.status == Status::Active { Style::Green } else { Style::Yellow };
        rows.push(vec![
            output.paint(Style::Bold, &s.name),
            output.paint(style, if s.is_expired { "expired".to_owned() } else { s.status.to_string() }),
            age(now.saturating_sub(s.created_ms)),
            s.changed_files.to_string(),
            bytes(s.size_bytes),
            s.pids.to_string(),
            s.goes_ms.map_or_else(|| "-".to_owned(), |at| roughly(at.saturating_sub(now))),
            printable(&s.project.to_string_lossy()),
        ]);
    }
    output.line(table::render(&rows));
    for s in sandboxes.iter().filter(|s| !s.missing.is_empty()) {
        let what = printable(&in_words(&s.missing));
        output.line(format!("{} {} is incomplete: {what}", output.paint(Style::Red, "!"), s.name));
    }
    Ok(ExitCode::SUCCESS)
}

/// What went by itself, what will not, and how much it is.
fn say_what_piles_up(engine: &Engine, sandboxes: &[Listed], output: &Output) {
    const MOST_NAMED: usize = 3;
    let found = engine.upkeep.news_of_collected();
    for removed in found.removed.iter().take(MOST_NAMED) {
        output.note(format!("whatif removed {}: {}", removed.name, removed.reason));
    }
    if found.removed.len() > MOST_NAMED {
        output.note(format!("whatif removed {} more", found.removed.len() - MOST_NAMED));
    }
    let config = &engine.caller().config;
    let forgotten: Vec<&Listed> = sandboxes.iter().filter(|s| s.is_forgotten).collect();
    if let (Some(first), Some(most)) = (forgotten.first(), config.gc.unused.0) {
        let (count, size) = (counted(forgotten.len() as u64, "sandbox"), bytes(forgotten.iter().map(|s| s.size_bytes).sum()));
        let count = count.replace("sandboxs", "sandboxes");
        output.note(format!("{count} with unapplied changes ({size}) not used for {most}: {} …", first.name));
        output.note(format!("  look: whatif diff {}   remove them: whatif gc --older-than {most}", first.name));
    }
    if let Some(alert) = found.total_bytes.and_then(|total| engine.upkeep.size_alert(total)) {
        output.warn(format!("whatif: {alert}; what takes it: whatif du"));
    }
}
