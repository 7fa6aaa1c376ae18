use crate::exit::ExitCode;
use std::path::PathBuf;

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

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The apply, as `whatif history` names it; by default the latest of this project
    apply: Option<String>,
    /// Leave this file or directory as it is (repeatable, wildcards allowed)
    #[arg(long, value_name = "PATH")]
    skip: Vec<String>,
    /// Do not ask
    #[arg(long, short = 'y')]
    yes: bool,
    /// Only print what would be restored
    #[arg(long)]
    dry_run: bool,
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    let request = UndoRequest { id: args.apply.clone(), skip: args.skip.clone() };
    let mut following = Following::new(output);
    if args.dry_run {
        let prepared = engine.changes.prepare_undo(&request)?;
        show_undo(&prepared, output);
        output.document(&document(&prepared, None));
        return Ok(ExitCode::SUCCESS);
    }
    let wish = UndoWish { request, is_approved: args.yes };
    let undone = engine.changes.take_back(&wish, &mut Person::new(output), &mut following);
    let undone = following.explained(undone)?;
    let interrupted = following.ended();
    let TakenBack::Undone(undone) = undone else {
        output.note("nothing was undone");
        return Ok(ExitCode::FAILURE);
    };
    let Undone { prepared, notes } = *undone;
    done(format!("apply {} undone by {}", prepared.page.id, prepared.id));
    output.line(format!(
        "{} {} restored; apply {} is undone",
        output.paint(Style::Green, "✓"),
        counted(prepared.paths.len() as u64, "path"),
        prepared.page.id
    ));
    notes.iter().for_each(|note| output.note(printable(note)));
    if !prepared.skipped.is_empty() {
        output.line(format!("  left as they are: {}", left_as_they_are(&prepared).join(", ")));
    }
    output.line(format!("  apply it again: whatif undo {}", prepared.id));
    output.document(&document(&prepared, Some(&notes)));
    if let Some(signal) = interrupted {
        output.note(format!("interrupted by {} too late to stop it: everything is restored", signal_name(signal)));
    }
    Ok(after(interrupted))
}

/// What an undo would do.
pub fn show_undo(prepared: &PreparedUndo, output: &Output) {
    let (project, removed) = (&prepared.page.project, prepared.removed());
    for path in &prepared.paths {
        let word = if removed.contains(path) { "delete" } else { "restore" };
        output.line(format!("{word:<7}  {}", visible_path(shown_path(path, project))));
    }
    for path in &prepared.skipped {
        output.line(format!("skip     {}", visible_path(shown_path(path, project))));
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
        "notes": done.unwrap_or_default(),
    })
}

/// Nobody knows git's objects by their names.
fn left_as_they_are(prepared: &PreparedUndo) -> Vec<String> {
    let named = prepared.skipped.iter().filter(|p| !is_git_object(p));
    let named: Vec<String> = named.map(|p| visible_path(shown_path(p, &prepared.page.project))).collect();
    let objects = prepared.skipped.len() - named.len();
    let objects = (objects > 0).then(|| format!("{objects} of git's objects"));
    named.into_iter().chain(objects).collect()
}
