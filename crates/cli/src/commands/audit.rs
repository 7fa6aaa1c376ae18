//! `whatif audit`.

use serde_json::json;
use whatif_engine::Engine;
use whatif_engine::ground::events::DeedDocument;

use super::Outcome;
use super::events::facts;
use crate::exit::ExitCode;
use crate::output::{Output, Style, printable};

/// Entries that are read at once.
const BATCH: usize = 500;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Check that no entry was changed or removed
    #[arg(long)]
    verify: bool,
    /// Start after the entry with this number
    #[arg(long, value_name = "NUMBER", default_value = "0", conflicts_with = "verify")]
    after: u64,
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    if args.verify {
        let last = engine.ground.verify_deeds()?.map(DeedDocument::from);
        let count = last.as_ref().map_or(0, |entry| entry.number);
        let hash = last.map(|entry| entry.hash);
        let until = hash.as_ref().map_or_else(String::new, |hash| format!("; the last one has the hash {hash}"));
        let (are, noun) = if count == 1 { ("is", "entry") } else { ("are", "entries") };
        output.line(format!("{} {count} {noun} {are} as written{until}", output.paint(Style::Green, "✓")));
        output.document(&json!({ "entries": count, "hash": hash }));
        return Ok(ExitCode::SUCCESS);
    }
    let (mut after, mut entries) = (args.after, Vec::new());
    loop {
        let found = engine.ground.deeds(after, BATCH)?;
        let Some(last) = found.last() else { break };
        after = last.number;
        entries.extend(found.into_iter().map(DeedDocument::from));
    }
    if entries.is_empty() && args.after == 0 {
        output.line("nothing was applied, undone, reviewed, rejected or removed yet");
    }
    for entry in &entries {
        output.line(format!(
            "{} {} {:<19} {}{}  {}",
            output.paint(Style::Dim, format!("{:>6}", entry.number)),
            entry.at.replace('T', " ").trim_end_matches('Z'),
            entry.action,
            output.paint(Style::Bold, printable(&entry.subject)),
            facts(&entry.about),
            output.paint(Style::Dim, format!("{} ({})", printable(&entry.principal), printable(&entry.via))),
        ));
    }
    output.document(&json!({ "entries": entries, "next": after }));
    Ok(ExitCode::SUCCESS)
}
