use crate::exit::ExitCode;
use std::io::{IsTerminal, Write};
use std::path::PathBuf;

use whatif_engine::changes::diff::{Diff, Subject};
use whatif_engine::ground::GroundError;
use whatif_engine::{Change, Depth, Engine, EngineError, Unreadable, shown_path};
use whatif_sys::absence;

use super::{Outcome, meant};
use crate::changes::{self, Extent, Implied, Pager, Picked};
use crate::failure::Failure;
use crate::output::{Output, counted, lost_output, printable, visible_path};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  whatif diff                       the latest sandbox of this project\n  whatif diff swift-otter src       only what is in src\n  whatif diff swift-otter --patch | git apply --binary\n  whatif diff one..two              from one sandbox or snapshot to another\n  whatif diff swift-otter@green     what it had changed at a snapshot"
)]
pub struct Args {
    /// A sandbox, a snapshot as NAME@LABEL or LABEL, two of either as A..B, or paths in the latest sandbox of this project
    #[arg(value_name = "NAME|A..B|PATH")]
    subjects: Vec<PathBuf>,
    /// Print only the list
    #[arg(long, group = "form")]
    stat: bool,
    /// Print a patch for `git apply --binary`
    #[arg(long, short = 'p', group = "form")]
    patch: bool,
    /// Print only the paths
    #[arg(long, group = "form")]
    name_only: bool,
    /// Exit with 1 if there are changes
    #[arg(long)]
    exit_code: bool,
    /// Include ignored files
    #[arg(long)]
    all: bool,
    /// Include changes outside the project
    #[arg(long)]
    outside: bool,
    /// Never use a pager
    #[arg(long)]
    no_pager: bool,
}

impl Args {
    pub fn subjects(&self) -> &[PathBuf] {
        &self.subjects
    }

    /// The same about something else.
    pub fn about(self, subjects: Vec<PathBuf>) -> Self {
        Self { subjects, ..self }
    }
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    let (subject, paths) = subject(engine, &args.subjects)?;
    let picked = Picked::new(&paths, &engine.caller().cwd);
    let is_for_programs = args.name_only || args.patch && !std::io::stdout().is_terminal();
    let depth = if is_for_programs && !output.json { Depth::Listing } else { Depth::Review };
    let diff = engine.changes.diff(&subject, depth)?;
    refuse_unknown(&diff, &picked, engine)?;
    let extent = Extent { ignored: args.all, outside: args.outside, folds: !args.all && picked.is_everything() };
    let mut unread = diff.set.unreadable.clone();
    if output.json {
        let told = |c: &Change| {
            let is_cached = extent.folds && diff.is_in_package_cache(c);
            picked.takes(c) && !is_cached && (args.all || !c.ignored || c.needs_approval())
        };
        output.document(&diff.document(told, args.patch));
    } else if show(&diff, args, &picked, extent, &mut unread, output).is_err() {
        lost_output();
    }
    // What is closed to its user has been listed; after any other error the list is not complete.
    if let Some(unreadable) = unread.iter().find(|u| !u.is_closed()) {
        return Err(EngineError::from(unreadable.clone()).into());
    }
    let is_changed = diff.set.changes.iter().any(|c| picked.takes(c) && (args.outside || !c.outside));
    Ok(if args.exit_code && is_changed { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// A path at which nothing changed and nothing is in reality is most likely misspelt.
fn refuse_unknown(diff: &Diff, picked: &Picked, engine: &Engine) -> Result<(), Failure> {
    let unknown = picked.without_change(&diff.set.changes).find(|path| std::fs::symlink_metadata(path).is_err());
    match unknown {
        None => Ok(()),
        Some(path) => Err(Failure::usage(
            "no_such_path",
            format!("{} is neither in the change set nor in reality", visible_path(shown_path(path, &engine.caller().cwd))),
            format!("list what there is: whatif diff {} --name-only --all --outside", diff.title),
        )),
    }
}

/// Adds to `unread` what turns out to be so while it is shown.
fn show(
    diff: &Diff,
    args: &Args,
    picked: &Picked,
    extent: Extent,
    unread: &mut Vec<Unreadable>,
    output: &Output,
) -> std::io::Result<()> {
    let project = &diff.sandbox.project;
    let wanted: Vec<&Change> = diff.set.changes.iter().filter(|c| picked.takes(c)).collect();
    if args.name_only {
        let mut out = std::io::BufWriter::new(std::io::stdout().lock());
        let implied = Implied::by(&wanted);
        let is_shown = |c: &&&Change| {
            extent.lists(c) && !(extent.folds && diff.is_in_package_cache(c)) && (c.needs_approval() || !implied.has(c))
        };
        for change in wanted.iter().filter(is_shown) {
            writeln!(out, "{}", visible_path(shown_path(&change.path, project)))?;
        }
        note_unreadable(&diff.set.unreadable, output);
        return out.flush();
    }
    // On a terminal, with or without colours, nothing is shown as it is: a patch holds whatever the sandbox wrote.
    if args.patch && !std::io::stdout().is_terminal() {
        let mut out = std::io::BufWriter::new(std::io::stdout().lock());
        // Who names paths means them.
        let (ignored, wanted): (Vec<&Change>, Vec<&Change>) =
            wanted.into_iter().partition(|c| c.ignored && !c.needs_approval() && !c.outside && !args.all && picked.is_everything());
        let left_out = changes::write_patch(&mut out, &wanted, project)?;
        let ignored = ignored.iter().filter(|c| !c.is_directory()).count();
        if ignored > 0 {
            let count = counted(ignored as u64, "change");
            output.note(format!("whatif: not in the patch: {count} that the project ignores (--all has them)"));
        }
        if args.outside || !picked.is_everything() {
            for path in left_out.outside {
                output.note(format!("whatif: not in the patch, outside the project: {}", visible_path(&path)));
            }
        } else if !left_out.outside.is_empty() {
            let count = counted(left_out.outside.len() as u64, "change");
            output.note(format!("whatif: not in the patch: {count} outside the project (--outside names them)"));
        }
        for path in left_out.of_git {
            output.note(format!("whatif: not in the patch, git takes none to its own data: {}", visible_path(&path)));
        }
        for path in left_out.unfit {
            output.note(format!("whatif: not in the patch, too large or not a file: {}", visible_path(&path)));
        }
        for (path, words) in left_out.unsaid {
            output.note(format!("whatif: not in the patch: {} ({})", visible_path(&path), printable(&words)));
        }
        unread.extend(left_out.unreadable);
        note_unreadable(unread, output);
        return out.flush();
    }
    let with_hunks = !args.stat && std::io::stdout().is_terminal();
    let mut pager = Pager::start(with_hunks && !args.no_pager, project);
    let shown = changes::list(&mut pager, diff, &|c| picked.takes(c), extent, output).and_then(|()| {
        let listed = if with_hunks { changes::listed(diff, &wanted, extent) } else { Vec::new() };
        for change in listed {
            changes::coloured_hunks(&mut pager, change, project, output)?;
        }
        Ok(())
    });
    pager.finish();
    match shown {
        // The reader has seen enough.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

fn note_unreadable(unreadable: &[Unreadable], output: &Output) {
    for one in unreadable {
        output.note(format!("whatif: could not be read ({}): {}", one.why(), visible_path(&one.path)));
    }
}

/// The first word is a sandbox if one is called that; everything else is paths.
fn subject(engine: &Engine, words: &[PathBuf]) -> Result<(Subject, Vec<PathBuf>), Failure> {
    let latest = || Ok(Subject::Sandbox(meant(engine, None)?));
    let Some(first) = words.first().and_then(|w| w.to_str()) else { return Ok((latest()?, words.to_vec())) };
    let rest = || words[1..].to_vec();
    if engine.changes.is_sandbox(first)? {
        return Ok((Subject::Sandbox(first.into()), rest()));
    }
    if let Some((from, to)) =
        first.split_once("..").filter(|(a, b)| !a.contains('/') && !b.contains('/') && (!a.is_empty() || !b.is_empty()))
    {
        let side = |name: &str| (!name.is_empty()).then(|| name.to_owned());
        return Ok((Subject::Between(side(from), side(to)), rest()));
    }
    // What a sandbox had changed at a snapshot.
    if first.contains('@') && !first.contains('/') {
        return Ok((Subject::Between(None, Some(first.to_owned())), rest()));
    }
    // A word that is neither a sandbox nor anything in the file system is a misspelt sandbox.
    let is_there = || absence::leads_somewhere(&engine.caller().cwd.join(first)).unwrap_or(true);
    if words.len() == 1 && !first.contains('/') && !is_there() {
        let latest = latest().and_then(|latest| engine.changes.diff(&latest, Depth::Names));
        let known = latest.is_ok_and(|d| d.set.changes.iter().any(|c| c.path.starts_with(engine.caller().cwd.join(first))));
        if !known && engine.ground.is_label(first)? {
            return Ok((Subject::Between(None, Some(first.to_owned())), rest()));
        }
        if !known {
            return Err(EngineError::from(GroundError::NoSuchSandbox { name: first.to_owned() }).into());
        }
    }
    Ok((latest()?, words.to_vec()))
}
