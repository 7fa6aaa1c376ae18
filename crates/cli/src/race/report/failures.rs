//! What failed and the last lines it printed, and what else is worth knowing.

use whatif_types::experiment::{Ended, Outcome, Verdict};

use super::{Extent, more};
use crate::output::Style;
use crate::race::line::{Line, printed, wrapped};
use crate::race::{Shown, words};

/// Lines of each failure.
const MOST_LINES: usize = 10;
const MOST_IN_SHORT: usize = 3;
const MOST_NAMED: usize = 5;

/// The same failure of several attempts is shown once.
struct Failure<'a> {
    attempts: Vec<&'a str>,
    what: String,
    failing_tests: &'a [String],
    tail: Vec<String>,
}

pub fn failed(race: Shown<'_>, extent: Extent, room: usize) -> Vec<Line> {
    let mut failures: Vec<Failure<'_>> = Vec::new();
    for (attempt, outcome) in race.ranked() {
        for failure in of(attempt, outcome) {
            let same =
                |f: &&mut Failure<'_>| f.what == failure.what && f.tail == failure.tail && f.failing_tests == failure.failing_tests;
            match failures.iter_mut().find(same) {
                Some(same) => same.attempts.push(attempt),
                None => failures.push(failure),
            }
        }
    }
    let shown = extent.most(MOST_IN_SHORT).min(failures.len());
    let mut lines = Vec::new();
    for failure in &failures[..shown] {
        if !lines.is_empty() {
            lines.push(Line::default());
        }
        lines.extend(shown_failure(failure, room));
    }
    lines.extend(more(failures.len(), shown, race));
    lines
}

/// Each check that it does not pass, or its own command.
fn of<'a>(attempt: &'a str, outcome: &'a Outcome) -> Vec<Failure<'a>> {
    let own = outcome.ended.as_ref().filter(|ended| outcome.verdict == Verdict::Failed && !ended.is_success());
    let own = own.map(|ended| Failure {
        attempts: vec![attempt],
        what: format!("failed ({})", words::ending(ended)),
        failing_tests: &[],
        tail: last_lines(ended),
    });
    let checks = outcome.checks.iter().filter(|check| !check.has_passed());
    let checks = checks.filter_map(|check| {
        let run = check.runs.iter().find(|run| !run.is_success())?;
        let optional = if check.required { "" } else { ", which is optional" };
        Some(Failure {
            attempts: vec![attempt],
            what: format!("{} ({}){optional}", check.name, words::how_it_failed(check)),
            failing_tests: check.tests.as_ref().map_or(&[], |t| &t.failures),
            tail: last_lines(run),
        })
    });
    own.into_iter().chain(checks).filter(|f| !f.tail.is_empty() || !f.failing_tests.is_empty()).collect()
}

/// Without the counts of a test report: the table has them, and its time would make the same failures different.
fn last_lines(ended: &Ended) -> Vec<String> {
    let lines: Vec<String> = ended.tail.lines().map(printed).filter(|line| !is_count(line)).collect();
    let end = lines.iter().rposition(|line| !line.trim().is_empty()).map_or(0, |at| at + 1);
    lines[..end].iter().skip(end.saturating_sub(MOST_LINES)).cloned().collect()
}

/// `# pass 3`, as TAP reports end.
fn is_count(line: &str) -> bool {
    const COUNTED: [&str; 8] = ["tests", "suites", "pass", "fail", "cancelled", "skipped", "todo", "duration_ms"];
    let rest = line.strip_prefix("# ").or_else(|| line.strip_prefix("ℹ "));
    rest.and_then(|r| r.split_once(' '))
        .is_some_and(|(what, number)| COUNTED.contains(&what) && number.trim().parse::<f64>().is_ok())
}

fn shown_failure(failure: &Failure<'_>, room: usize) -> Vec<Line> {
    let own = failure.what.starts_with("failed");
    let verb = match (own, failure.attempts.len()) {
        (true, _) => " ",
        (false, 1) => " fails ",
        (false, _) => " fail ",
    };
    let title = Line::painted(Style::Bold, named(&failure.attempts)).with(Style::Red, format!("{verb}{}", failure.what));
    let mut lines = vec![title.cut(room)];
    if !failure.failing_tests.is_empty() {
        let names: Vec<&str> = failure.failing_tests.iter().map(String::as_str).collect();
        lines.push(Line::plain(format!("  failing: {}", named(&names))).cut(room));
    }
    lines.extend(failure.tail.iter().map(|line| Line::painted(Style::Dim, "  │ ").plus(line).cut(room)));
    lines
}

/// What is worth knowing of each besides, and hosts that were denied.
pub fn remarks(race: Shown<'_>, room: usize) -> Vec<Line> {
    let mut said: Vec<(String, Option<String>, Vec<&str>)> = Vec::new();
    let mut say = |what: String, remedy, attempt| match said.iter_mut().find(|(same, ..)| *same == what) {
        Some((.., attempts)) => attempts.push(attempt),
        None => said.push((what, remedy, vec![attempt])),
    };
    for (attempt, outcome) in race.ranked() {
        outcome.remarks.iter().for_each(|remark| say(remark.clone(), None, attempt));
        if !outcome.denied.is_empty() {
            let hosts: Vec<&str> = outcome.denied.iter().map(String::as_str).collect();
            say(format!("denied {}", named(&hosts)), allowing(&hosts), attempt);
        }
    }
    let mut lines: Vec<Line> = never_measured(race).map(|line| line.cut(room)).collect();
    for (what, remedy, attempts) in &said {
        let rows = wrapped(&format!("{}: {what}", named(attempts)), room.saturating_sub(2));
        lines.extend(rows.iter().enumerate().map(|(at, row)| match at {
            0 => Line::painted(Style::Yellow, "! ").plus(row),
            _ => Line::plain("  ").plus(row),
        }));
        lines.extend(remedy.iter().map(|remedy| Line::plain("  to allow: ").plus(remedy)));
    }
    lines
}

/// Mostly a mistake in the metric.
fn never_measured(race: Shown<'_>) -> impl Iterator<Item = Line> {
    let was_checked = |outcome: &Outcome| outcome.checks.iter().any(|check| !check.runs.is_empty());
    let checked: Vec<&Outcome> = race.ranked().map(|(_, outcome)| outcome).filter(|o| was_checked(o)).collect();
    let metrics = race
        .experiment
        .details
        .plan
        .metrics
        .iter()
        .filter(move |metric| !checked.is_empty() && checked.iter().all(|outcome| !outcome.metrics.contains_key(&metric.name)));
    metrics.map(|metric| Line::painted(Style::Yellow, "! ").plus(format!("metric '{}' was found in no output", metric.name)))
}

/// The option that would let them through. What ran chose the names: only what is certainly a host goes into a command to copy.
fn allowing(hosts: &[&str]) -> Option<String> {
    let is_host = |host: &&&str| host.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':'));
    let allowed: Vec<&str> = hosts.iter().filter(is_host).take(MOST_NAMED).copied().collect();
    (!allowed.is_empty()).then(|| format!("--net allow={}", allowed.join(",")))
}

/// The first of them, and how many more.
fn named(names: &[&str]) -> String {
    let first = names[..names.len().min(MOST_NAMED)].join(", ");
    if names.len() > MOST_NAMED { format!("{first} and {} more", names.len() - MOST_NAMED) } else { first }
}
