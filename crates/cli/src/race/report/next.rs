//! What one can do next.

use std::collections::HashSet;

use whatif_types::experiment::Verdict;

use crate::output::Style;
use crate::race::line::{Line, visible};
use crate::race::{Detail, Shown, Standing};

const GAP: &str = "   ";

/// As many of them on a line as fit.
pub fn lines(race: Shown<'_>, detail: Detail, room: usize) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for (purpose, command) in steps(race, detail) {
        let step = Line::painted(Style::Dim, format!("{purpose}: ")).plus(command);
        match lines.pop() {
            Some(line) if line.width() + GAP.len() + step.width() <= room => lines.push(line.plus(GAP).then(step)),
            last => lines.extend(last.into_iter().chain([Line::plain("  ").then(step)])),
        }
    }
    lines
}

fn steps(race: Shown<'_>, detail: Detail) -> Vec<(String, String)> {
    let places = &race.ranking.places;
    let best = places.first().map(|p| p.attempt.as_str());
    let is_there = whole_attempts(race);
    // A name that cannot be shown cannot be copied either.
    let can_be_named = |name: &&str| visible(name) == **name && is_there.contains(name);
    let changed = race.ranked().filter(|(_, o)| !o.changes.list.is_empty()).map(|(name, _)| name).filter(can_be_named);
    let changed: Vec<&str> = changed.take(2).collect();
    let mut steps = Vec::new();
    if race.standing == Standing::Running {
        return steps;
    }
    if race.standing == Standing::Interrupted {
        steps.push(("go on".to_owned(), command("resume", race)));
    }
    // By name: the head of a long report is out of sight.
    if let Some(winner) = race.ranking.winner.as_deref().filter(|name| is_there.contains(name)) {
        steps.push((format!("keep {}", visible(winner)), command(&format!("apply best{}", beyond_the_project(race)), race)));
    }
    match changed[..] {
        [one, other, ..] => steps.push(("compare".to_owned(), command(&format!("diff {} {}", quoted(one), quoted(other)), race))),
        [one] => steps.push(("look".to_owned(), command(&format!("diff {}", quoted(one)), race))),
        [] => {}
    }
    let has_failed = best.is_some() && race.ranked().all(|(_, o)| o.verdict != Verdict::Passed);
    if has_failed && race.standing == Standing::Ended {
        steps.push(("again".to_owned(), command("rerun", race)));
    }
    if detail == Detail::Short {
        steps.push(("all of it".to_owned(), command("show", race)));
    }
    steps
}

/// Those whose sandbox has all that they did: what was applied is not in it any more.
fn whole_attempts(race: Shown<'_>) -> HashSet<&str> {
    let applied = &race.experiment.details.applied;
    let attempts =
        race.experiment.attempts().filter(|(planned, recorded)| recorded.sandbox.is_some() && !applied.contains(&planned.name));
    attempts.map(|(planned, _)| planned.name.as_str()).collect()
}

/// Options without which there would be nothing to apply of the winner.
fn beyond_the_project(race: Shown<'_>) -> String {
    let changes = race.ranked().next().map(|(_, outcome)| &outcome.changes).filter(|changes| changes.files == 0);
    let option = |paths: u64, option: &str| if paths > 0 { format!(" {option}") } else { String::new() };
    changes.map(|c| option(c.outside, "--outside") + &option(c.ignored, "--ignored")).unwrap_or_default()
}

/// As it is typed.
#[must_use]
pub fn command(what: &str, race: Shown<'_>) -> String {
    let race = if race.is_latest { String::new() } else { format!(" --race {}", quoted(&race.experiment.name)) };
    format!("whatif race {what}{race}")
}

/// A word for a shell.
#[must_use]
pub fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '+' | '=' | ':' | '@' | '/' | ',' | '%');
    if !word.is_empty() && word.chars().all(is_plain) { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}
