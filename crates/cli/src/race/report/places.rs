//! The table of attempts, and why each stands where it stands.

use whatif_types::experiment::{AttemptState, CheckOutcome};

use super::{Extent, more};
use crate::output::{Style, bytes};
use crate::race::grid::{self, Column};
use crate::race::line::{Line, wrapped};
use crate::race::{PlacedAttempt, Shown, Standing, metrics, words};

const MOST_IN_SHORT: usize = 30;
const MOST_REASONS_IN_SHORT: usize = 10;

/// With one check the result says it; with more than this they are counted.
const CHECK_COLUMNS: std::ops::RangeInclusive<usize> = 2..=6;
const LONGEST_CHECK: usize = 12;
const LONGEST_RESULT: usize = 48;
const LONGEST_NAME: usize = 20;

/// Those that ended, the best first, then the others.
pub fn table(race: Shown<'_>, extent: Extent, room: usize) -> Vec<Line> {
    let plan = &race.experiment.details.plan;
    let metrics = metrics(plan);
    let mut rows: Vec<Vec<Line>> = race.placed().map(|placed| cells(race, placed, &metrics, room)).collect();
    for (planned, recorded) in race.experiment.attempts().filter(|(_, recorded)| recorded.outcome.is_none()) {
        let state = match (recorded.state, race.standing) {
            (AttemptState::Running, Standing::Running) => "running",
            (AttemptState::Waiting, Standing::Running) => "waiting",
            (AttemptState::Running, _) => "interrupted",
            _ => "not begun",
        };
        let state = Line::painted(Style::Dim, format!("{} {state}", words::WAITING));
        let mut row = vec![Line::default(), Line::plain(&planned.name), state];
        row.resize(columns(race, &metrics).len() - 1, Line::default());
        row.push(Line::painted(Style::Dim, &planned.about));
        rows.push(row);
    }
    let (all, most) = (rows.len(), extent.most(MOST_IN_SHORT));
    rows.truncate(most);
    let mut lines = if rows.is_empty() { Vec::new() } else { grid::lines(&columns(race, &metrics), &rows, room) };
    lines.extend(more(all, most.min(all), race));
    lines
}

fn columns(race: Shown<'_>, metrics: &[String]) -> Vec<Column> {
    let checks = &race.experiment.details.plan.checks;
    // In capitals what we call so; checks and metrics as their author does.
    let mut columns =
        vec![Column::with_room("#", 100).number(), Column::always("ATTEMPT").at_least(8), Column::always("RESULT").at_least(22)];
    if CHECK_COLUMNS.contains(&checks.len()) {
        columns.extend(checks.iter().map(|check| Column::with_room(&cut(&check.name), 60)));
    } else {
        columns.push(Column::with_room("CHECKS", 60).number());
    }
    columns.push(Column::with_room("TESTS", 80).number());
    columns.push(Column::with_room("CHANGE", 85));
    columns.push(Column::with_room("SCORE", 95).number());
    columns.extend(metrics.iter().map(|m| Column::with_room(m, 75).number()));
    columns.push(Column::with_room("TIME", 70).number());
    columns.push(Column::with_room("CPU", 50).number());
    columns.push(Column::with_room("MEMORY", 40).number());
    columns.push(Column::with_room("WHAT", 10).at_least(16));
    columns
}

fn cells(race: Shown<'_>, placed: PlacedAttempt<'_>, metrics: &[String], room: usize) -> Vec<Line> {
    let plan = &race.experiment.details.plan;
    let PlacedAttempt { place, outcome, .. } = placed;
    let wins = race.ranking.winner.as_ref() == Some(&place.attempt);
    let name = if wins { Line::painted(Style::Bold, &place.attempt) } else { Line::plain(&place.attempt) };
    let result = words::result(outcome);
    let result = Line::painted(result.style, format!("{} {}", result.mark, result.words)).cut(LONGEST_RESULT);
    let mut cells = vec![Line::plain(place.place.to_string()), name, result];
    if CHECK_COLUMNS.contains(&plan.checks.len()) {
        cells.extend(plan.checks.iter().map(|check| mark(outcome.checks.iter().find(|c| c.name == check.name))));
    } else {
        let passed = outcome.checks.iter().filter(|c| c.has_passed()).count();
        let is_said = plan.checks.len() > 1 && !outcome.checks.is_empty();
        cells.push(if is_said { Line::plain(format!("{passed}/{}", plan.checks.len())) } else { Line::default() });
    }
    let ran = words::was_run(outcome);
    let when_it_ran = |line: Line| if ran { line } else { Line::default() };
    let (wall, cpu, memory) = words::used(outcome);
    cells.push(words::tests(outcome.checks.iter().filter_map(|c| c.tests.as_ref())));
    cells.push(when_it_ran(words::change(&outcome.changes, words::room_for_change(room))));
    cells.push(place.score.map(|score| Line::plain(format!("{score:.1}"))).unwrap_or_default());
    cells.extend(metrics.iter().map(|m| outcome.metrics.get(m).map(|v| Line::plain(words::measured(m, v))).unwrap_or_default()));
    let unless_metric =
        |name: &str, line: Line| if metrics.iter().any(|m| m == name) { Line::default() } else { when_it_ran(line) };
    cells.push(when_it_ran(Line::plain(words::time(wall))));
    cells.push(unless_metric("cpu", Line::plain(words::time(cpu))));
    cells.push(unless_metric("memory", Line::plain(bytes(memory))));
    cells.push(Line::painted(Style::Dim, &placed.plan.about));
    cells
}

fn mark(check: Option<&CheckOutcome>) -> Line {
    match check {
        None => Line::painted(Style::Dim, words::WAITING),
        Some(check) if check.has_passed() => Line::painted(Style::Green, words::PASSED),
        Some(check) if check.required => Line::painted(Style::Red, words::FAILED),
        Some(_) => Line::painted(Style::Yellow, words::FAILED),
    }
}

fn cut(name: &str) -> String {
    Line::plain(name).cut(LONGEST_CHECK).text()
}

/// One line for each that ended.
pub fn reasons(race: Shown<'_>, extent: Extent, room: usize) -> Vec<Line> {
    let places = &race.ranking.places;
    let most = extent.most(MOST_REASONS_IN_SHORT).min(places.len());
    let indent = places[..most].iter().map(|p| Line::plain(&p.attempt).width()).max().unwrap_or(0).min(LONGEST_NAME);
    let mut lines = Vec::new();
    for place in &places[..most] {
        let name = Line::plain(&place.attempt).cut(indent);
        let fill = " ".repeat(indent - name.width() + 2);
        let mut rows = wrapped(&place.why, room.saturating_sub(indent + 4).max(20)).into_iter();
        let first = rows.next().unwrap_or_default();
        lines.push(Line::plain("  ").then(name).plus(fill).plus(first).cut(room));
        lines.extend(rows.map(|row| Line::plain(" ".repeat(indent + 4)).plus(row).cut(room)));
    }
    if !lines.is_empty() {
        lines.insert(0, Line::painted(Style::Bold, "why"));
    }
    lines.extend(more(places.len(), most, race));
    lines
}
