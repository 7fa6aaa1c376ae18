use crate::exit::ExitCode;
use std::path::{Path, PathBuf};

use serde_json::json;
use whatif_engine::changes::gate::{TakenBack, UndoWish, Undone};
use whatif_engine::changes::signal_name;
use whatif_engine::changes::undo::{PreparedUndo, UndoRequest, is_git_object};
use whatif_engine::{Engine, shown_path};
use whatif_types::text::Text;

use super::Outcome;
use super::apply::after;
use crate::interrupt::Following;
use crate::output::{Output, Style, counted, done, printable, visible_path};
use crate::person::Person;
use crate::spelled;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The apply, as `whatif history` names it; by default the latest of this project
    apply: Option<String>,
    /// Restore only paths that match; another undo of the same apply restores the rest
    #[arg(long, value_name = "GLOB", num_args = 1..)]
    files: Vec<String>,
    /// Do not restore this file or directory (repeatable, wildcards allowed)
    #[arg(long, value_name = "PATH")]
    skip: Vec<String>,
    /// List every path, however many there are
    #[arg(long)]
    all: bool,
    /// Do not ask for confirmation
    #[arg(long, short = 'y')]
    yes: bool,
    /// Print what would be restored and change nothing
    #[arg(long)]
    dry_run: bool,
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    let request = UndoRequest { id: args.apply.clone(), files: args.files.clone(), skip: args.skip.clone() };
    let mut following = Following::new(output);
    if args.dry_run {
        let prepared = engine.changes.prepare_undo(&request)?;
        show_undo(&prepared, args.all, output);
        output.document(&document(&prepared, None));
        return Ok(ExitCode::SUCCESS);
    }
    let wish = UndoWish { request, is_approved: args.yes };
    let undone = engine.changes.take_back(&wish, &mut Person::new(output).listing_all(args.all), &mut following);
    let undone = following.explained(undone)?;
    let interrupted = following.ended();
    let TakenBack::Undone(undone) = undone else {
        output.note("nothing was undone");
        return Ok(ExitCode::FAILURE);
    };
    let Undone { prepared, notes } = *undone;
    let in_part = if prepared.is_in_part { " in part" } else { "" };
    done(format!("apply {} undone{in_part} by {}", prepared.page.id, prepared.id));
    output.line(format!(
        "{} {} restored; apply {} is undone{in_part}",
        output.paint(Style::Green, "✓"),
        counted(prepared.paths.len() as u64, "path"),
        prepared.page.id
    ));
    notes.iter().for_each(|note| output.note(printable(note)));
    say_gave_way(&prepared, output);
    let left = left_as_they_are(&prepared);
    if !left.is_empty() {
        output.line(format!("  left as they are: {}", some(&left, args.all, MOST_NAMED)));
    }
    if prepared.is_in_part {
        output.line(format!("  take back the rest: whatif undo {}", prepared.page.id));
    }
    if let Some(commit) = prepared.page.commit.as_deref().filter(|_| prepared.page.undo_of.is_none()) {
        let commit = &commit[..commit.len().min(12)];
        output.line(format!(
            "  commit {commit} stays in git; to commit its reverse: git add -A -- {} && git commit -m 'Revert {commit}'",
            committed(&prepared, engine)
        ));
    }
    output.line(format!("  to get the changes back, undo the undo: whatif undo {}", prepared.id));
    output.document(&document(&prepared, Some(&notes)));
    if let Some(signal) = interrupted {
        output.note(format!("interrupted by {} too late to stop it: everything is restored", signal_name(signal)));
    }
    Ok(after(interrupted))
}

/// What a commit of the reverse consists of. Other edits in the project are no part of it.
fn committed(prepared: &PreparedUndo, engine: &Engine) -> String {
    let in_project = prepared.paths.iter().filter(|path| path.starts_with(&prepared.page.project));
    let paths: Vec<String> = in_project.map(|path| spelled::quoted(&Text::from(shown_path(path, &engine.caller().cwd)))).collect();
    if paths.len() > MOST_NAMED { "PATH…".to_owned() } else { paths.join(" ") }
}

/// More are counted.
const MOST_LISTED: usize = 50;
const MOST_NAMED: usize = 10;

/// What an undo would do.
pub fn show_undo(prepared: &PreparedUndo, lists_all: bool, output: &Output) {
    let (project, removed) = (&prepared.page.project, prepared.removed());
    let (id, sandbox) = (&prepared.page.id, printable(&prepared.page.sandbox));
    output.line(format!("apply {id} from {}:", output.paint(Style::Bold, sandbox)));
    let most = if lists_all { usize::MAX } else { MOST_LISTED };
    for path in prepared.paths.iter().take(most) {
        let word = if removed.contains(path) { "delete" } else { "restore" };
        output.line(format!("{word:<7}  {}", visible_path(shown_path(path, project))));
    }
    more(prepared.paths.len(), most, output);
    let skipped: Vec<&PathBuf> = prepared.skipped.iter().filter(|path| gave_way(prepared, path).is_none()).collect();
    for path in skipped.iter().take(most) {
        output.line(format!("skip     {}", visible_path(shown_path(path, project))));
    }
    more(skipped.len(), most, output);
    say_gave_way(prepared, output);
}

fn more(all: usize, most: usize, output: &Output) {
    if let Some(more) = all.checked_sub(most).filter(|more| *more > 0) {
        output.line(format!("… and {} more: --all lists them", grouped(more)));
    }
}

/// `1,393`.
fn grouped(count: usize) -> String {
    let digits = count.to_string();
    let groups: Vec<&str> = digits.as_bytes().rchunks(3).rev().filter_map(|group| std::str::from_utf8(group).ok()).collect();
    groups.join(",")
}

fn some(all: &[String], lists_all: bool, most: usize) -> String {
    let most = if lists_all { all.len() } else { most };
    match all.len().saturating_sub(most) {
        0 => all.join(", "),
        more => format!("{} and {} more", all[..most].join(", "), grouped(more)),
    }
}

fn gave_way<'a>(prepared: &'a PreparedUndo, path: &Path) -> Option<&'a str> {
    prepared.gave_way.iter().find(|one| one.path == path).map(|one| one.why.as_str())
}

/// Logs and caches are no reason not to undo the rest, and none to be overlooked.
fn say_gave_way(prepared: &PreparedUndo, output: &Output) {
    let project = &prepared.page.project;
    let named: Vec<String> =
        prepared.gave_way.iter().map(|one| format!("{} {}", visible_path(shown_path(&one.path, project)), one.why)).collect();
    if !named.is_empty() {
        let what = output.paint_note(Style::Yellow, "left as they are, logs and caches that changed since:");
        output.note(format!("{what} {}", some(&named, false, MOST_NAMED)));
    }
}

/// With what there is to be known about it, if it is done.
fn document(prepared: &PreparedUndo, done: Option<&[String]>) -> serde_json::Value {
    let project = &prepared.page.project;
    let shown = |paths: &[PathBuf]| paths.iter().map(|p| Text::from(shown_path(p, project))).collect::<Vec<_>>();
    let (restored, skipped) = (shown(&prepared.paths), shown(&prepared.skipped));
    json!({
        "apply": prepared.page.id,
        "undo": done.map(|_| &prepared.id),
        "restored": restored,
        "skipped": skipped,
        "gave_way": prepared.gave_way.iter().map(|one| json!({ "path": Text::from(shown_path(&one.path, project)), "why": one.why })).collect::<Vec<_>>(),
        "in_part": prepared.is_in_part,
        "notes": done.unwrap_or_default(),
    })
}

/// Nobody knows git's objects by their names.
fn left_as_they_are(prepared: &PreparedUndo) -> Vec<String> {
    let named = prepared.skipped.iter().filter(|p| !is_git_object(p) && gave_way(prepared, p).is_none());
    let named: Vec<String> = named.map(|p| visible_path(shown_path(p, &prepared.page.project))).collect();
    let objects = prepared.skipped.iter().filter(|p| is_git_object(p)).count();
    let objects = (objects > 0).then(|| format!("{objects} of git's objects"));
    named.into_iter().chain(objects).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_are_counted() {
        assert_eq!([7, 1393, 1_000_000].map(grouped), ["7", "1,393", "1,000,000"]);
        let all: Vec<String> = (0..1500).map(|n| n.to_string()).collect();
        assert_eq!(some(&all, false, 2), "0, 1 and 1,498 more");
        assert_eq!(some(&all[..2], false, 2), "0, 1");
    }
}
