//! The report of a race: who wins, how each one did and why, what failed and how, which files differ, what to do next.

mod failures;
mod matrix;
mod next;
mod places;
#[cfg(test)]
mod tests;

use std::io::IsTerminal;

use super::brush::{Brush, Charset, Colours};
use super::line::{Line, wrapped};
use super::{Detail, Shown, Standing};
use crate::output::{Output, Style};

/// With more attempts than this, a short report leaves out what takes many lines.
const FEW: usize = 10;

/// Where nothing says how wide the reader's window is.
const USUAL_ROOM: usize = 100;

/// After a race, and for `race show`. What one can do next goes to standard error.
pub fn report(race: Shown<'_>, detail: Detail, output: &Output) {
    let brush = Brush { charset: Charset::of_terminal(), colours: Colours::OfOutput(output) };
    lines(race, detail, room()).iter().for_each(|line| output.line(line.render(brush)));
    let brush = Brush { colours: Colours::OfNotes(output), ..brush };
    next::lines(race, detail, room()).iter().for_each(|line| output.note(line.render(brush)));
}

/// Columns of standard output.
pub(super) fn room() -> usize {
    let terminal =
        || std::io::stdout().is_terminal().then(|| rustix::termios::tcgetwinsize(rustix::stdio::stdout()).ok()).flatten();
    let told = || std::env::var("COLUMNS").ok()?.parse().ok();
    terminal().map(|size| size.ws_col.into()).filter(|columns| *columns > 0).or_else(told).unwrap_or(USUAL_ROOM)
}

fn lines(race: Shown<'_>, detail: Detail, room: usize) -> Vec<Line> {
    let extent = match detail {
        Detail::Short if race.experiment.attempts().count() > FEW => Extent::Short,
        _ => Extent::Full,
    };
    let mut lines = sentence(race, room);
    let sections = [
        places::table(race, extent, room),
        places::reasons(race, extent, room),
        failures::failed(race, extent, room),
        failures::remarks(race, room),
        matrix::table(race, extent, room),
    ];
    for section in sections.into_iter().filter(|s| !s.is_empty()) {
        lines.push(Line::default());
        lines.extend(section);
    }
    lines
}

/// How much is said about a race.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    Short,
    Full,
}

impl Extent {
    /// How many of them are shown.
    fn most(self, in_short: usize) -> usize {
        match self {
            Self::Short => in_short,
            Self::Full => usize::MAX,
        }
    }
}

/// A line about those that are not shown, if there are any.
fn more(all: usize, shown: usize, race: Shown<'_>) -> Option<Line> {
    let left = all.checked_sub(shown).filter(|left| *left > 0)?;
    Some(Line::painted(Style::Dim, format!("  … and {left} more: {}", next::command("show", race))))
}

/// Who wins and why, or why nobody does.
fn sentence(race: Shown<'_>, room: usize) -> Vec<Line> {
    let ranking = race.ranking;
    let (ended, all) = (ranking.places.len(), race.experiment.attempts().count());
    let (style, head) = match (&ranking.winner, race.standing) {
        (Some(winner), Standing::Ended) => (Style::Green, format!("{winner} wins: ")),
        (Some(winner), standing) => (Style::Green, format!("{winner} leads ({}, {ended} of {all} done): ", standing.as_str())),
        (None, Standing::Ended) => (Style::Red, String::new()),
        (None, standing) => (Style::Yellow, format!("{}, {ended} of {all} done: ", standing.as_str())),
    };
    let mut rows = wrapped(&format!("{head}{}", ranking.because), room.saturating_sub(2)).into_iter();
    let first = rows.next().unwrap_or_default();
    // The first clause says it all.
    let (clause, rest) = first.split_at(first.find([':', ';']).unwrap_or(first.len()));
    let painted = Line::painted(style, clause).plus(rest);
    let applied = &race.experiment.details.applied;
    let applied = (!applied.is_empty()).then(|| Line::painted(Style::Cyan, "applied: ").plus(applied.join(", ")));
    let all = std::iter::once(painted).chain(rows.map(|row| Line::plain(format!("  {row}")))).chain(applied);
    all.map(|line| line.cut(room)).collect()
}
