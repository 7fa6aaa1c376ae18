use crate::exit::ExitCode;

use serde_json::json;
use whatif_engine::Engine;
use whatif_engine::changes::history::Page;
use whatif_types::text::Text;
use whatif_types::timestamp::rfc3339;

use super::Outcome;
use crate::output::{Output, Style, counted, printable, visible_path};
use crate::table;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// Include all projects
    #[arg(long, short = 'a')]
    all: bool,
}

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    let is_here = |p: &Page| engine.caller().cwd.starts_with(&p.project) || p.project.starts_with(&engine.caller().cwd);
    let pages: Vec<Page> = engine.changes.history()?.into_iter().filter(|p| args.all || is_here(p)).collect();
    if output.json {
        output.document(&pages.iter().map(document).collect::<Vec<_>>());
        return Ok(ExitCode::SUCCESS);
    }
    if pages.is_empty() {
        output.line("nothing was applied here yet");
        return Ok(ExitCode::SUCCESS);
    }
    // In the one project that all of them are of, its name says nothing.
    let has_projects = pages.iter().any(|p| p.project != pages[0].project || !engine.caller().cwd.starts_with(&p.project));
    let project = has_projects.then_some("PROJECT");
    let heading = ["APPLY", "WHEN", "WHO", "SANDBOX", "FILES", "STATE"].into_iter().chain(project).chain(["COMMAND"]);
    let mut rows = vec![heading.map(|h| output.paint(Style::Dim, h)).collect::<Vec<String>>()];
    rows.extend(pages.iter().map(|page| {
        let mut row = vec![
            output.paint(Style::Bold, &page.id),
            rfc3339(page.at).replace('T', " ").trim_end_matches('Z').to_owned(),
            printable(&page.who),
            page.sandbox.clone(),
            page.files.to_string(),
            state(page),
        ];
        row.extend(has_projects.then(|| visible_path(&page.project)));
        row.push(shortened(&printable(&page.command.join(" "))));
        row
    }));
    output.line(table::render(&rows));
    Ok(ExitCode::SUCCESS)
}

fn state(page: &Page) -> String {
    match (&page.undone_by, &page.undo_of, &page.commit) {
        (Some(by), ..) => format!("undone by {by}"),
        (None, ..) if !page.parts.is_empty() => format!("undone in part by {}", page.parts.join(", ")),
        (None, Some(of), _) if page.skipped.is_empty() => format!("undoes {of}"),
        (None, Some(of), _) => format!("undoes {of} but for {}", counted(page.skipped.len() as u64, "path")),
        (None, None, Some(commit)) => format!("commit {}", &commit[..commit.len().min(12)]),
        (None, None, None) => "applied".to_owned(),
    }
}

const LONGEST: usize = 50;

fn shortened(command: &str) -> String {
    if command.chars().count() <= LONGEST {
        return command.to_owned();
    }
    command.chars().take(LONGEST - 1).chain(['…']).collect()
}

fn document(page: &Page) -> serde_json::Value {
    json!({
        "id": page.id,
        "at": rfc3339(page.at),
        "who": page.who,
        "sandbox": page.sandbox,
        "sandbox_id": page.sandbox_id,
        "command": page.command,
        "project": Text::from(&page.project),
        "files": page.files,
        "paths": page.paths.iter().map(Text::from).collect::<Vec<_>>(),
        "commit": page.commit,
        "undo_of": page.undo_of,
        "undone_by": page.undone_by,
        "undone_in_part_by": page.parts,
        "skipped": page.skipped.iter().map(Text::from).collect::<Vec<_>>(),
        "state": if page.undone_by.is_some() { "undone" } else { "applied" },
    })
}
