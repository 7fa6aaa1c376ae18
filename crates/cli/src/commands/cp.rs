//! `whatif cp`.

use crate::exit::ExitCode;
use std::path::{Path, PathBuf};

use serde_json::json;
use whatif_engine::Engine;
use whatif_engine::lifecycle::copy::Replace;

use super::Outcome;
use crate::failure::Failure;
use crate::output::{Output, bytes, counted, visible_path};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "What is copied out of a sandbox is in no history and cannot be undone. A file of reality that differs is replaced\nwith --force only; without it, nothing is copied then."
)]
pub struct Args {
    /// From: PATH or NAME:PATH
    source: String,
    /// To: PATH or NAME:PATH
    target: String,
    /// Replace files of reality
    #[arg(long, short)]
    force: bool,
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    let replace = if args.force { Replace::Anything } else { Replace::Never };
    let copied = match (place(&args.source), place(&args.target)) {
        (Place::Inside(name, inside), Place::Outside(outside)) => {
            engine.lifecycle.copy_out(&name.into(), inside, &outside, replace)?
        }
        (Place::Outside(outside), Place::Inside(name, inside)) => engine.lifecycle.copy_in(&outside, &name.into(), inside)?,
        _ => {
            return Err(Failure::usage(
                "one side must be in a sandbox and the other must not",
                "whatif cp swift-otter:result.txt .   or   whatif cp data.csv swift-otter:/tmp/",
            ));
        }
    };
    let skipped = copied.left_out.len();
    output.document(&json!({
        "files": copied.files, "links": copied.links, "bytes": copied.bytes, "skipped": skipped, "left_out": copied.left_out,
    }));
    let links = if copied.links > 0 { format!(", {}", counted(copied.links, "link")) } else { String::new() };
    output.note(format!("{}{links} copied, {}", counted(copied.files, "file"), bytes(copied.bytes)));
    for left_out in copied.left_out.iter().take(MOST_NAMED) {
        output.note(format!("left out: {} ({})", visible_path(&left_out.path), left_out.why));
    }
    if skipped > MOST_NAMED {
        output.note(format!("… and {} more", skipped - MOST_NAMED));
    }
    // Asked for something and not given it is not a success.
    Ok(if skipped > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// More than this is counted.
const MOST_NAMED: usize = 10;

enum Place<'a> {
    Inside(&'a str, &'a Path),
    Outside(PathBuf),
}

/// As with scp: a colon before any slash makes it a place in a sandbox.
fn place(text: &str) -> Place<'_> {
    match text.split_once(':') {
        Some((name, path)) if !name.is_empty() && !name.contains('/') => {
            Place::Inside(name, Path::new(if path.is_empty() { "." } else { path }))
        }
        _ => Place::Outside(PathBuf::from(text)),
    }
}
