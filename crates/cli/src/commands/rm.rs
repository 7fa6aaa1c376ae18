//! `whatif rm`.

use crate::exit::ExitCode;
use std::collections::HashSet;
use std::io::{BufRead, IsTerminal, Write};

use serde_json::json;
use whatif_engine::ground::GroundError;
use whatif_engine::lifecycle::LifecycleError;
use whatif_engine::{Engine, EngineError};
use whatif_types::Status;

use super::Outcome;
use crate::failure::Failure;
use crate::output::{Output, counted, printable};
use crate::progress::Clock;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The sandboxes: names or beginnings of ids. On a terminal, by default the one of this project that was used last
    names: Vec<String>,
    /// Remove all sandboxes
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    yes: bool,
    /// Remove all sandboxes that are not running; with names, only these, and refuse if one is running
    #[arg(long)]
    stopped: bool,
}

/// Which sandboxes are to go.
enum Wanted {
    Named(Vec<String>),
    /// All there are, or all that do not run.
    All(Vec<String>),
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    let wanted = wanted(engine, args)?;
    let is_all = matches!(wanted, Wanted::All(_));
    let (Wanted::Named(mut names) | Wanted::All(mut names)) = wanted;
    let mut named = HashSet::new();
    names.retain(|name| named.insert(name.clone()));
    if !args.yes && asks_a_person() {
        let (found, unknown, snapshots) = looked_up(engine, &names)?;
        if !found.is_empty() && !agreed(&question(&found, snapshots))? {
            output.note("nothing was removed");
            return Ok(ExitCode::FAILURE);
        }
        names = [found, unknown].concat();
    }
    if names.is_empty() {
        output.note("no sandbox to remove");
    }
    // One that cannot be removed does not keep the others.
    let mut removed = Vec::new();
    let mut already_removed = Vec::new();
    let mut first_failure = None;
    for name in &names {
        let mut gone = |name: &String| {
            output.line(format!("{} was already removed", printable(name)));
            already_removed.push(name.clone());
        };
        let clock = Clock::start("removing", name, output);
        let outcome = engine.lifecycle.remove(&name.as_str().into(), args.stopped);
        drop(clock);
        match outcome {
            Ok(sandbox) => {
                output.line(format!("{} is gone", sandbox.name));
                removed.push(sandbox.name);
            }
            // Of all there were a moment ago, one may have gone by itself.
            Err(EngineError::Ground(GroundError::NoSuchSandbox { .. } | GroundError::Removed { .. })) if is_all => {}
            // Nor does one go that runs by now.
            Err(EngineError::Lifecycle(LifecycleError::StillRunning { .. })) if is_all && args.stopped => {}
            Err(EngineError::Ground(GroundError::Removed { .. })) => gone(name),
            Err(EngineError::Ground(GroundError::NoSuchSandbox { .. })) if engine.lifecycle.was_removed(name)? => gone(name),
            Err(error) => {
                let earlier = first_failure.replace(error);
                if let Some(earlier) = earlier {
                    output.error(&earlier);
                }
            }
        }
    }
    engine.lifecycle.open_up_the_rest();
    output.document(&json!({ "removed": removed, "already_removed": already_removed }));
    first_failure.map_or(Ok(ExitCode::SUCCESS), |error| Err(error.into()))
}

fn wanted(engine: &Engine, args: &Args) -> Result<Wanted, Failure> {
    if !args.names.is_empty() {
        return Ok(Wanted::Named(args.names.clone()));
    }
    if !args.all && !args.stopped {
        return the_latest(engine, args);
    }
    let (which, options) = match (args.all, args.stopped) {
        (_, true) => ("all sandboxes that are not running", "--stopped"),
        _ => ("all sandboxes", "--all"),
    };
    if !args.yes && !asks_a_person() {
        return Err(Failure::usage(
            "needs_confirmation",
            format!("no terminal to confirm on that {which} are to be removed"),
            format!("to remove them without a question: whatif rm {options} --yes"),
        ));
    }
    if args.stopped {
        let all = engine.lifecycle.list()?.into_iter().filter(|sandbox| sandbox.status != Status::Active);
        return Ok(Wanted::All(all.map(|sandbox| sandbox.name).collect()));
    }
    Ok(Wanted::All(engine.lifecycle.names()?))
}

/// Nothing is removed that was neither named nor confirmed.
fn the_latest(engine: &Engine, args: &Args) -> Result<Wanted, Failure> {
    let caller = engine.caller();
    let latest = engine.ground.latest_of(&caller.project_of(&caller.cwd)?)?.name;
    if !args.yes && asks_a_person() {
        return Ok(Wanted::Named(vec![latest]));
    }
    Err(Failure::usage(
        "missing_argument",
        "which sandbox is to be removed?",
        format!("name it; the one used last here: whatif rm {latest}"),
    ))
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
