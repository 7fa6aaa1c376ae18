//! `whatif gc`.

use std::process::ExitCode;

use whatif_engine::Engine;

use super::Outcome;
use crate::output::{Output, Style, printable};

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
    if collected.found_stopped.is_empty() && collected.forgotten.is_empty() && collected.unknown.is_empty() {
        output.line("nothing to do");
    }
    Ok(ExitCode::SUCCESS)
}
