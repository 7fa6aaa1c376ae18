//! `whatif rm`.

use crate::exit::ExitCode;
use std::collections::HashSet;
use std::io::{BufRead, IsTerminal, Write};

use serde_json::json;
use whatif_engine::ground::GroundError;
use whatif_engine::{Engine, EngineError};

use super::Outcome;
use crate::failure::Failure;
use crate::output::{Output, counted};

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
    let mut names = if args.all { engine.lifecycle.names()? } else { args.names.clone() };
    let mut named = HashSet::new();
    names.retain(|name| named.insert(name.clone()));
    if args.all && !args.yes && !std::io::stdin().is_terminal() {
        return Err(Failure::usage(
            "nobody can be asked whether to remove all sandboxes",
            "if that is meant: whatif rm --all --yes",
        ));
    }
    if !args.yes && asks_a_person() {
        let (found, unknown, snapshots) = looked_up(engine, &names)?;
        if !found.is_empty() && !agreed(&question(&found, snapshots))? {
            output.note("nothing was removed");
            return Ok(ExitCode::FAILURE);
        }
        names = [found, unknown].concat();
    }
    // One that cannot be removed does not keep the others.
    let mut removed = Vec::new();
    let mut first_failure = None;
    for name in &names {
        match engine.lifecycle.remove(&name.as_str().into(), args.stopped) {
            Ok(sandbox) => {
                output.line(format!("{} is gone", sandbox.name));
                removed.push(sandbox.name);
            }
            // Of all there were a moment ago, one may have gone by itself.
            Err(EngineError::Ground(GroundError::NoSuchSandbox { .. })) if args.all => {}
            Err(error) => {
                let earlier = first_failure.replace(error);
                if let Some(earlier) = earlier {
                    output.error(&earlier);
                }
            }
        }
    }
    output.document(&json!({ "removed": removed }));
    first_failure.map_or(Ok(ExitCode::SUCCESS), |error| Err(error.into()))
}

/// What a person is asked about: sandboxes that are there, each once and by its name; the other names; how many snapshots go.
fn looked_up(engine: &Engine, names: &[String]) -> Result<(Vec<String>, Vec<String>, usize), Failure> {
    let (mut found, mut unknown, mut total) = (Vec::new(), Vec::new(), 0);
    for name in names {
        match engine.history.with_snapshots(&name.as_str().into()) {
            // What is no sandbox is told when it is to be removed.
            Err(EngineError::Ground(GroundError::NoSuchSandbox { .. } | GroundError::Ambiguous { .. })) => {
                unknown.push(name.clone())
            }
            Ok((sandbox, _)) if found.contains(&sandbox.name) => {}
            Ok((sandbox, snapshots)) => {
                found.push(sandbox.name);
                total += snapshots;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok((found, unknown, total))
}

/// Only a person is asked; a script that says `rm` means it.
pub fn asks_a_person() -> bool {
    std::io::stdin().is_terminal() && std::io::stderr().is_terminal()
}

pub fn agreed(question: &str) -> Result<bool, Failure> {
    let _ = write!(std::io::stderr(), "{question} [y/N] ");
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    read.map_err(|source| EngineError::io("read", "the answer", source))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}

fn question(names: &[String], snapshots: usize) -> String {
    let sandboxes = counted(names.len() as u64, "sandbox");
    let contents = match snapshots {
        0 => "all changes".to_owned(),
        count => format!("all changes and {}", counted(count as u64, "snapshot")),
    };
    format!("Remove {sandboxes} with {contents} ({})?", names.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_is_asked_is_told_that_snapshots_go_too() {
        let names = ["fix".to_owned(), "try".to_owned()];
        assert_eq!(question(&names, 5), "Remove 2 sandboxes with all changes and 5 snapshots (fix, try)?");
        assert_eq!(question(&names[..1], 0), "Remove 1 sandbox with all changes (fix)?");
    }
}
