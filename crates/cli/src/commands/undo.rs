use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;
use whatif_engine::error::signal_name;
use whatif_engine::undo::{UndoRequest, is_git_object};
use whatif_engine::{Engine, EngineError, shown_path};
use whatif_types::text::Text;

use super::Outcome;
use super::apply::{after, agreed};
use crate::interrupt::{self, Interrupts};
use crate::output::{Output, Style, counted, done, printable, visible_path};

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
    let so_far = interrupt::nothing_changed_so_far(output);
    let prepared = match args.yes && !args.dry_run {
        true => Interrupts::default().during(output, |watch| engine.prepare_undo_in_turn(&request, watch))?,
        false => engine.prepare_undo(&request)?,
    };
    for note in prepared.notes() {
        output.note(format!("{} {}", output.paint_note(Style::Yellow, "whatif:"), printable(note)));
    }
    let project = &prepared.page.project;
    let is_interactive = !output.json && std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
    if args.dry_run || (is_interactive && !args.yes) {
        let removed = prepared.removed();
        for path in &prepared.paths {
            let word = if removed.contains(path) { "delete" } else { "restore" };
            output.line(format!("{word:<7}  {}", visible_path(shown_path(path, project))));
        }
        for path in &prepared.skipped {
            output.line(format!("skip     {}", visible_path(shown_path(path, project))));
        }
    }
    let document = |done: bool| {
        let shown = |paths: &[PathBuf]| paths.iter().map(|p| Text::from(shown_path(p, project))).collect::<Vec<_>>();
        let (restored, skipped) = (shown(&prepared.paths), shown(&prepared.skipped));
        json!({ "apply": prepared.page.id, "undo": done.then_some(&prepared.id), "restored": restored, "skipped": skipped })
    };
    if args.dry_run {
        output.document(&document(false));
        return Ok(ExitCode::SUCCESS);
    }
    if is_interactive && !args.yes {
        let question = format!("Take back {} of apply {}?", counted(prepared.paths.len() as u64, "change"), prepared.page.id);
        if !agreed(&question) {
            output.note("nothing was undone");
            return Ok(ExitCode::FAILURE);
        }
    } else if !args.yes {
        return Err(EngineError::Usage {
            message: "nobody can be asked here, and nothing was approved".to_owned(),
            hint: format!("look: whatif undo {id} --dry-run   approve: whatif undo {id} --yes", id = prepared.page.id),
        });
    }
    let interrupts = Interrupts::watch();
    drop(so_far);
    interrupts.during(output, |watch| engine.undo(&prepared, watch))?;
    let interrupted = interrupts.came();
    drop(interrupts);
    done(format!("apply {} undone by {}", prepared.page.id, prepared.id));
    output.line(format!(
        "{} {} restored; apply {} is undone",
        output.paint(Style::Green, "✓"),
        counted(prepared.paths.len() as u64, "path"),
        prepared.page.id
    ));
    if !prepared.skipped.is_empty() {
        let named = prepared.skipped.iter().filter(|p| !is_git_object(p)).map(|p| visible_path(shown_path(p, project)));
        let named: Vec<String> = named.collect();
        let objects = prepared.skipped.len() - named.len();
        let objects = (objects > 0).then(|| format!("{objects} of git's objects"));
        let all: Vec<String> = named.into_iter().chain(objects).collect();
        output.line(format!("  left as they are: {}", all.join(", ")));
    }
    output.line(format!("  apply it again: whatif undo {}", prepared.id));
    output.document(&document(true));
    if let Some(signal) = interrupted {
        output.note(format!("interrupted by {} too late to stop it: everything is restored", signal_name(signal)));
    }
    Ok(after(interrupted))
}
