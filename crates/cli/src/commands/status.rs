use crate::exit::ExitCode;

use whatif_engine::changes::apply::Outlook;
use whatif_engine::changes::status::{Drift, Standing};
use whatif_engine::{Base, Engine, EngineError, Moved, shown_path};
use whatif_types::timestamp::age;
use whatif_types::{Sandbox, Status};

use super::{Outcome, meant};
use crate::changes;
use crate::output::{Output, Style, counted, visible_path};
use crate::table;

#[derive(Debug, clap::Args)]
pub struct Args {
    /// The sandbox, by name or the beginning of its id; by default the latest of this project
    name: Option<String>,
}

/// More than this is counted.
const MOST_LISTED: usize = 50;
const MOST_DIRECTORIES: usize = 5;

pub fn execute(engine: &Engine, args: &Args, output: &Output) -> Outcome {
    let standing = engine.changes.status(&meant(engine, args.name.as_deref())?)?;
    output.document(&standing.document());
    let name = output.paint(Style::Bold, &standing.sandbox.name);
    let applies = applied_wholly(engine, &standing)?;
    if !applies.is_empty() {
        output.line(format!("{name} is {}; {}", how_old(&standing), changes::all_applied("it", &applies)));
        // What reality did since is told all the same.
        if standing.drift.is_empty() && standing.lost_names.is_empty() && standing.unreadable.is_empty() {
            return Ok(ExitCode::SUCCESS);
        }
    } else {
        output.line(format!("{name} is {} and holds {}", how_old(&standing), held(&standing)));
    }
    for line in changes::packages::in_words(&standing.packages, &standing.sandbox.project) {
        output.line(format!("  {line}"));
    }
    if standing.project_is_missing {
        let (path, name) = (visible_path(&standing.sandbox.project), &standing.sandbox.name);
        output.line(format!("{} the project is not at {path} any more: it was moved or deleted", output.paint(Style::Red, "!")));
        output.line(format!(
            "nothing can be applied until it is back; to take files out of the sandbox: whatif cp {name}:PATH DIRECTORY"
        ));
        return Ok(ExitCode::SUCCESS);
    }
    for path in &standing.unsettled {
        let path = visible_path(shown_path(path, &standing.sandbox.project));
        output.line(format!("{} {path} still has the markers of a rebase in it", output.paint(Style::Red, "conflict:")));
    }
    for unreadable in &standing.unreadable {
        let path = visible_path(shown_path(&unreadable.path, &standing.sandbox.project));
        output.line(format!("{} {path} could not be read ({})", output.paint(Style::Red, "!"), unreadable.why()));
    }
    if standing.drift.is_empty() && !standing.lost_names.is_empty() {
        let named = standing.lost_names.iter().take(MOST_DIRECTORIES);
        let named: Vec<String> = named.map(|d| visible_path(standing.shown_directory(d))).collect();
        let more = standing.lost_names.len() - named.len();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        output.line("nothing that is in reality changed since, but something was deleted or renamed there,");
        output.line(format!("and what is not known any more: in {}{more}", named.join(", ")));
        return Ok(ExitCode::SUCCESS);
    }
    if standing.drift.is_empty() {
        output.line(if !standing.unreadable.is_empty() {
            "reality has not moved since, as far as it could be looked at"
        } else if !standing.unsettled.is_empty() {
            "reality has not moved since; edit these files in the sandbox and remove the markers"
        } else {
            "reality has not moved since: what it did is still true"
        });
        return Ok(ExitCode::SUCCESS);
    }
    // What collides first.
    let mut drift: Vec<&Drift> = standing.drift.iter().collect();
    drift.sort_by_key(|d| (!d.is_conflict(), d.collides.is_none()));
    let paths = counted(drift.len() as u64, "path");
    let may_be_older = drift.iter().all(|d| d.perhaps_before);
    output.line(if may_be_older { format!("{paths} missing in reality:") } else { format!("{paths} moved in reality since:") });
    let rows: Vec<Vec<String>> = drift.iter().take(MOST_LISTED).map(|d| row(d, &standing, output)).collect();
    output.line(table::render(&rows));
    if drift.len() > MOST_LISTED {
        output.line(format!("… and {} more", drift.len() - MOST_LISTED));
    }
    output.line(in_words(&standing, output));
    if standing.sandbox.status == Status::Active {
        let name = &standing.sandbox.name;
        output.note(format!(
            "  programs that run inside get no events for edits in reality; those that poll see them after: whatif exec {name} -- true"
        ));
    }
    Ok(ExitCode::SUCCESS)
}

/// Since it was made, and since its last rebase.
fn how_old(standing: &Standing) -> String {
    let Sandbox { created_at, details, .. } = &standing.sandbox;
    match details.based_at {
        None => format!("{} old", age(standing.age_ms)),
        Some(based_at) => {
            let since_made = standing.age_ms + based_at.saturating_sub(*created_at);
            format!("{} old, was rebased {} ago,", age(since_made), age(standing.age_ms))
        }
    }
}

/// The applies by which everything became real; none if something differs from reality.
fn applied_wholly(engine: &Engine, standing: &Standing) -> Result<Vec<String>, EngineError> {
    let is_equal = standing.changes == 0 && standing.unreadable.is_empty() && !standing.project_is_missing;
    if is_equal { engine.changes.applies_of(&standing.sandbox) } else { Ok(Vec::new()) }
}

/// As `diff` counts them: its headline is about what it lists.
fn held(standing: &Standing) -> String {
    let Standing { changes, ignored, outside, .. } = *standing;
    let mut held = counted((changes - ignored - outside) as u64, "change");
    if ignored > 0 {
        held.push_str(&format!(", {ignored} more that the project ignores"));
    }
    if outside > 0 {
        held.push_str(&format!(", {outside} more outside the project"));
    }
    held
}

fn row(drift: &Drift, standing: &Standing, output: &Output) -> Vec<String> {
    let style = match drift.kind {
        Moved::Changed | Moved::AddedOrChanged => Style::Yellow,
        Moved::Added => Style::Green,
        Moved::Deleted => Style::Red,
    };
    let word = drift.kind.in_words();
    let mut note = match (drift.collides, drift.base) {
        (Some(Outlook::Merges), _) => output.paint(Style::Cyan, "will be merged with what the sandbox did there"),
        (Some(Outlook::Same), _) => "reality has what the sandbox did there".to_owned(),
        (Some(Outlook::Conflict), base) => {
            let why = drift.why.unwrap_or(match base {
                Some(Base::Unknown) => "both changed it, and which version the sandbox saw is not known",
                _ => "both changed it",
            });
            output.paint(Style::Red, format!("conflict: {why}"))
        }
        (None, _) if drift.perhaps_before => "perhaps before the sandbox was made".to_owned(),
        (None, _) => String::new(),
    };
    if drift.left_out {
        note.push_str("; an apply leaves it out unless asked for it");
    }
    vec![output.paint(style, word), visible_path(shown_path(&drift.path, &standing.sandbox.project)), note]
}

fn in_words(standing: &Standing, output: &Output) -> String {
    let name = &standing.sandbox.name;
    match (standing.conflicts(), standing.collisions()) {
        (0, 0) if standing.drift.iter().any(|d| d.left_out && d.collides.is_some()) => {
            "an apply leaves out what collides, and takes the rest".to_owned()
        }
        (0, 0) => "none of it is what the sandbox changed; but what ran in it may have read the earlier versions".to_owned(),
        (0, merging) => {
            format!("{merging} of them will be merged when it is applied; to see the result first: whatif rebase {name}")
        }
        (conflicts, _) => format!(
            "{}: {} in conflict. {}",
            output.paint(Style::Red, "results may not apply"),
            counted(conflicts as u64, "path"),
            if standing.drift.iter().any(|d| d.can_be_marked && !d.left_out) {
                format!(
                    "To resolve them in the sandbox: whatif rebase {name}; or when you apply: --theirs PATH, --ours PATH or --skip PATH"
                )
            } else {
                format!(
                    "To resolve them: whatif apply {name} with --theirs PATH (the sandbox's), --ours PATH (reality's) or --skip PATH (later)"
                )
            },
        ),
    }
}
