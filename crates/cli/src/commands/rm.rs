//! `whatif rm`.

use std::io::{BufRead, IsTerminal, Write};
use std::process::ExitCode;

use serde_json::json;
use whatif_engine::{Engine, EngineError};

use super::Outcome;
use crate::output::{Output, counted};

/// Throw sandboxes away, with their changes and everything that runs in them
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The sandboxes: names or beginnings of ids
    #[arg(required_unless_present = "all")]
    names: Vec<String>,
    /// All of them
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// Do not ask, even on a terminal
    #[arg(long, short)]
    yes: bool,
    /// Refuse sandboxes that are running
    #[arg(long)]
    stopped: bool,
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    let names = if args.all { engine.names()? } else { args.names.clone() };
    if args.all && !args.yes && !std::io::stdin().is_terminal() {
        return Err(EngineError::Usage {
            message: "nobody can be asked whether to remove all sandboxes".to_owned(),
            hint: "if that is meant: whatif rm --all --yes".to_owned(),
        });
    }
    if !args.yes && !is_confirmed(&names)? {
        output.note("nothing was removed");
        return Ok(ExitCode::FAILURE);
    }
    // One that cannot be removed does not keep the others.
    let mut removed = Vec::new();
    let mut first_failure = None;
    let mut had_layers = false;
    for name in &names {
        match engine.remove(Some(name), args.stopped) {
            Ok(sandbox) => {
                output.line(format!("{} is gone", sandbox.name));
                had_layers |= sandbox.details.position.taken > 0 || !sandbox.details.position.stack.is_empty();
                removed.push(sandbox.name);
            }
            // Of all there were a moment ago, one may have gone by itself.
            Err(EngineError::NoSuchSandbox { .. }) if args.all => {}
            Err(error) => {
                let earlier = first_failure.replace(error);
                if let Some(earlier) = earlier {
                    output.error(&earlier);
                }
            }
        }
    }
    if had_layers {
        super::in_background(&["tidy", "--layers"]);
    }
    output.document(&json!({ "removed": removed }));
    first_failure.map_or(Ok(ExitCode::SUCCESS), Err)
}

/// Asked only of a person; a script that says `rm` means it.
fn is_confirmed(names: &[String]) -> Result<bool, EngineError> {
    if names.is_empty() || !(std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
        return Ok(true);
    }
    let mut err = std::io::stderr();
    let _ = write!(err, "Remove {} with all changes ({})? [y/N] ", counted(names.len() as u64, "sandbox"), names.join(", "));
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    read.map_err(|source| EngineError::Io { action: "read", path: "the answer".into(), source })?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
