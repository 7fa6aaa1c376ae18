//! `whatif cp`.

use crate::exit::ExitCode;
use std::path::{Path, PathBuf};

use serde_json::json;
use whatif_engine::Engine;
use whatif_engine::lifecycle::copy::{Copied, Replace};

use super::Outcome;
use crate::failure::Failure;
use crate::output::{Output, bytes, counted, visible_path};
use crate::progress::Line;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "What is copied out of a sandbox is in no history and cannot be undone. A file of reality that differs is replaced\nwith --force only; without it, nothing is copied then."
)]
pub struct Args {
    /// Source: PATH or NAME:PATH
    source: String,
    /// Target: PATH or NAME:PATH
    target: String,
    /// Replace files in reality
    #[arg(long, short)]
    force: bool,
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    let replace = if args.force { Replace::Anything } else { Replace::Never };
    let mut line = Line::new("copying", output);
    let mut tell = |bytes_so_far: u64| line.show(&bytes(bytes_so_far));
    let copied = match (place(&args.source), place(&args.target)) {
        (Place::Inside(name, inside), Place::Outside(outside)) => {
            engine.lifecycle.copy_out(&name.into(), inside, &outside, replace, &mut tell)?
        }
        (Place::Outside(outside), Place::Inside(name, inside)) => {
            engine.lifecycle.copy_in(&outside, &name.into(), inside, &mut tell)?
        }
        _ => {
            return Err(Failure::usage(
                "invalid_value",
                "one side must be in a sandbox and the other must not",
                "whatif cp swift-otter:result.txt .   or   whatif cp data.csv swift-otter:/tmp/",
            ));
        }
    };
    line.clear();
    let skipped = copied.left_out.len();
    output.document(&json!({
        "files": copied.files, "links": copied.links, "bytes": copied.bytes, "equal": copied.equal, "skipped": skipped, "left_out": copied.left_out,
    }));
    output.note(in_words(&copied));
    for left_out in copied.left_out.iter().take(MOST_NAMED) {
        output.note(format!("left out: {} ({})", visible_path(&left_out.path), left_out.why));
    }
    if skipped > MOST_NAMED {
        output.note(format!("… and {} more", skipped - MOST_NAMED));
    }
    // Asked for something and not given it is not a success.
    Ok(if skipped > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// A file that was there already is not written again.
fn in_words(copied: &Copied) -> String {
    let links = if copied.links > 0 { format!(", {}", counted(copied.links, "link")) } else { String::new() };
    let written = copied.files - copied.equal;
    let done = format!("{}{links} copied, {}", counted(written, "file"), bytes(copied.bytes));
    match copied.equal {
        0 => done,
        equal if written == 0 && copied.links == 0 => {
            let are = if equal == 1 { "is" } else { "are" };
            format!("nothing to copy: {} {are} already the same there", counted(equal, "file"))
        }
        equal => format!("{done}; {equal} more already the same there"),
    }
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
