//! The live table at one moment: a headline, then a line for each attempt, as many as fit.

use std::time::Instant;

use super::board::{Board, Phase, Progress, Row};
use super::grid::{self, Column};
use super::line::Line;
use super::words;
use crate::output::{Style, bytes, counted};

const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
const TURN_MS: u128 = 100;
const LONGEST_STATE: usize = 40;

/// With fewer lines than this, headings are not worth theirs.
const LEAST_WITH_HEADINGS: usize = 8;

/// At most so many lines, none wider than the room there is.
#[must_use]
pub fn frame(board: &Board, now: Instant, room: usize, height: usize) -> Vec<Line> {
    let mut lines = vec![headline(board, now, room)];
    let mut footer = Vec::new();
    if board.moved > 0 {
        let what = format!("reality moved since it began: {} changed", counted(board.moved as u64, "path"));
        footer.push(Line::painted(Style::Yellow, what).cut(room));
    }
    let has_headings = height >= LEAST_WITH_HEADINGS;
    let left = height.saturating_sub(lines.len() + footer.len() + usize::from(has_headings));
    let (shown, rest) = choose(board, left);
    let rows: Vec<Vec<Line>> = shown.iter().map(|row| cells(board, row, now, room)).collect();
    lines.extend(grid::lines(&columns(board), &rows, room).into_iter().skip(usize::from(!has_headings)));
    lines.extend(rest.map(|line| line.cut(room)));
    lines.extend(footer);
    lines.truncate(height);
    lines
}

fn headline(board: &Board, now: Instant, room: usize) -> Line {
    let all = board.rows.len();
    let done = board.rows.iter().filter(|r| r.is_done()).count();
    let passed = board.rows.iter().filter(|r| r.has_passed()).count();
    let time = words::time(u64::try_from(board.elapsed(now).as_millis()).unwrap_or(u64::MAX));
    let at_once = if board.jobs > 0 && all > 1 { format!(", {} at a time", board.jobs) } else { String::new() };
    let of = |facts: String, done: String| {
        let line = Line::painted(Style::Bold, &board.race).plus(format!("{facts} · {time} · "));
        match board.phase {
            Phase::Setup => line.with(Style::Cyan, "setting up"),
            Phase::Judging => line.with(Style::Cyan, "the judge decides"),
            Phase::Attempts if passed > 0 => line.plus(done).plus(", ").with(Style::Green, format!("{passed} passed")),
            Phase::Attempts => line.plus(done),
        }
    };
    let whole = of(format!(" · {}{at_once}", counted(all as u64, "attempt")), format!("{done} done"));
    if whole.width() <= room { whole } else { of(String::new(), format!("{done}/{all} done")).cut(room) }
}

/// All in the order of the plan; where there is no room for all, what matters most, and a line about the rest.
fn choose(board: &Board, room: usize) -> (Vec<&Row>, Option<Line>) {
    let mut rows: Vec<&Row> = board.rows.iter().collect();
    if rows.len() <= room {
        return (rows, None);
    }
    rows.sort_by_key(|row| row.urgency());
    let rest = rows.split_off(room.saturating_sub(1));
    let waiting = rest.iter().filter(|r| matches!(r.progress, Progress::Waiting)).count();
    let running = rest.iter().filter(|r| r.is_running()).count();
    let done = rest.iter().filter(|r| r.is_done()).count();
    let counts = [(running, "running"), (waiting, "waiting"), (done, "done")];
    let words: Vec<String> = counts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}")).collect();
    (rows, Some(Line::painted(Style::Dim, format!("… {}", words.join(", ")))))
}

fn columns(board: &Board) -> Vec<Column> {
    let longest = board.checks.iter().map(|c| Line::plain(c).width()).max().unwrap_or(0);
    // Room for "checking NAME 2/3" and "fails NAME (exit 1)".
    let state = (longest + "checking  10/10".len()).clamp(16, 28);
    let mut columns = vec![
        Column::always("ATTEMPT").at_least(10),
        Column::always("STATE").at_least(20).reserving(state),
        Column::with_room("TESTS", 80).number(),
        Column::with_room("CHANGE", 70).reserving(14),
        Column::with_room("TIME", 90).number().reserving(5),
    ];
    if !board.has_metric("cpu") {
        columns.push(Column::with_room("CPU", 50).number().reserving(5));
    }
    if !board.has_metric("memory") {
        columns.push(Column::with_room("MEMORY", 40).number().reserving(9));
    }
    columns.extend(board.metrics.iter().map(|m| Column::with_room(m, 60).number().reserving(1)));
    columns.push(Column::with_room("WHAT", 10).at_least(16));
    columns
}

fn cells(board: &Board, row: &Row, now: Instant, room: usize) -> Vec<Line> {
    let (mark, words) = state(board, row, now);
    let time = row.time(now).map(|t| words::time(u64::try_from(t.as_millis()).unwrap_or(u64::MAX)));
    let seen = |value: u64, text: String| if value > 0 { Line::plain(text) } else { Line::default() };
    let mut cells = vec![
        mark.plus(" ").with(Style::Bold, &row.name),
        words,
        words::tests(row.tests.iter().map(|(_, counts)| counts)),
        row.outcome()
            .filter(|o| words::was_run(o))
            .map(|o| words::change(&o.changes, words::room_for_change(room)))
            .unwrap_or_default(),
        Line::plain(time.unwrap_or_default()),
    ];
    if !board.has_metric("cpu") {
        cells.push(seen(row.cpu_ms, words::time(row.cpu_ms)));
    }
    if !board.has_metric("memory") {
        cells.push(seen(row.memory_bytes, bytes(row.memory_bytes)));
    }
    let measured = |metric: &String| Some(words::measured(metric, row.outcome()?.metrics.get(metric)?));
    cells.extend(board.metrics.iter().map(|m| Line::plain(measured(m).unwrap_or_default())));
    cells.push(Line::painted(Style::Dim, &row.about));
    cells
}

fn state(board: &Board, row: &Row, now: Instant) -> (Line, Line) {
    let turn = board.elapsed(now).as_millis() / TURN_MS % SPINNER.len() as u128;
    let spinner = Line::painted(Style::Cyan, SPINNER[turn as usize]);
    match &row.progress {
        Progress::Waiting => (Line::painted(Style::Dim, words::WAITING), Line::painted(Style::Dim, "waiting")),
        Progress::Running => (spinner, Line::plain("running")),
        Progress::Checking { check, .. } if board.steps() < 2 => (spinner, Line::plain(format!("checking {check}"))),
        Progress::Checking { check, step } => (spinner, Line::plain(format!("checking {check} {step}/{}", board.steps()))),
        Progress::Done(outcome) => {
            let result = words::result(outcome);
            (Line::painted(result.style, result.mark), Line::painted(result.style, result.words).cut(LONGEST_STATE))
        }
    }
}

#[cfg(test)]
mod tests;
