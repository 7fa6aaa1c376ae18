//! `whatif cp`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde_json::json;
use whatif_engine::{Engine, EngineError};

use super::Outcome;
use crate::output::{Output, bytes, counted};

#[derive(Debug, clap::Args)]
pub struct Args {
    /// From: PATH or NAME:PATH
    source: String,
    /// To: PATH or NAME:PATH
    target: String,
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    let copied = match (place(&args.source), place(&args.target)) {
        (Place::Inside(name, inside), Place::Outside(outside)) => engine.copy_out(name, inside, &outside)?,
        (Place::Outside(outside), Place::Inside(name, inside)) => engine.copy_in(&outside, name, inside)?,
        _ => {
            return Err(EngineError::Usage {
                message: "one side must be in a sandbox and the other must not".to_owned(),
                hint: "whatif cp swift-otter:result.txt .   or   whatif cp data.csv swift-otter:/tmp/".to_owned(),
            });
        }
    };
    output.document(&json!({ "files": copied.files, "bytes": copied.bytes, "skipped": copied.skipped }));
    output.note(format!("{} copied, {}", counted(copied.files, "file"), bytes(copied.bytes)));
    if copied.skipped > 0 {
        output.note(format!(
            "{} skipped: links, pipes and sockets are not carried across",
            counted(copied.skipped, "entry").replace("entrys", "entries")
        ));
    }
    // Asked for one thing and not given it is not a success.
    Ok(if copied.files == 0 && copied.skipped > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

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
