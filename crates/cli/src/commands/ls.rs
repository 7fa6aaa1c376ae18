//! `whatif ls`.

use crate::exit::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use whatif_engine::Engine;
use whatif_engine::missing::in_words;
use whatif_types::Status;
use whatif_types::timestamp::age;

use super::Outcome;
use crate::output::{Output, Style, bytes, counted, printable};
use crate::table;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Only those of this project
    #[arg(long)]
    here: bool,
    /// Only those with this label, as KEY or KEY=VALUE
    #[arg(long, value_name = "KEY[=VALUE]")]
    label: Vec<String>,
    /// Print names only
    #[arg(long, short)]
    quiet: bool,
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    let mut sandboxes = engine.lifecycle.list()?;
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
    let all = sandboxes.len();
    if args.here {
        let project = engine.caller().project_of(&engine.caller().cwd)?;
        sandboxes.retain(|s| s.project == project);
    }
    sandboxes.retain(|s| {
        args.label.iter().all(|wanted| match wanted.split_once('=') {
            Some((key, value)) => s.labels.get(key).is_some_and(|v| v == value),
            None => s.labels.contains_key(wanted),
        })
    });
    output.document(&sandboxes);
    if args.quiet {
        sandboxes.iter().for_each(|s| output.line(&s.name));
        return Ok(ExitCode::SUCCESS);
    }
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
    let mut rows =
        vec![["NAME", "STATUS", "AGE", "CHANGED", "SIZE", "PIDS", "PROJECT"].map(|h| output.paint(Style::Dim, h)).to_vec()];
    for s in &sandboxes {
        let style = if s.status == Status::Active { Style::Green } else { Style::Yellow };
        rows.push(vec![
            output.paint(Style::Bold, &s.name),
            output.paint(style, s.status),
            age(now.saturating_sub(s.created_ms)),
            s.changed_files.to_string(),
            bytes(s.size_bytes),
            s.pids.to_string(),
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
