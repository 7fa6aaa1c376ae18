//! Columns that fit: those that matter least are narrowed first and then left out.

use super::line::Line;
use crate::output::Style;

const GAP: usize = 2;

/// From this importance on, other columns are narrowed before a column is left out.
const WORTH_NARROWING_FOR: u8 = 65;

#[derive(Clone, Debug)]
pub struct Column {
    heading: String,
    /// What is more important stays longer; nothing for what always stays.
    importance: Option<u8>,
    /// It may be narrowed down to this.
    least: Option<usize>,
    /// Room for what is yet to come, so that nothing jumps when it comes.
    reserved: usize,
    is_number: bool,
}

impl Column {
    #[must_use]
    pub fn always(heading: &str) -> Self {
        Self { heading: heading.to_owned(), importance: None, least: None, reserved: 0, is_number: false }
    }

    #[must_use]
    pub fn with_room(heading: &str, importance: u8) -> Self {
        Self { importance: Some(importance), ..Self::always(heading) }
    }

    #[must_use]
    pub fn at_least(self, least: usize) -> Self {
        Self { least: Some(least), ..self }
    }

    #[must_use]
    pub fn reserving(self, reserved: usize) -> Self {
        Self { reserved, ..self }
    }

    #[must_use]
    pub fn number(self) -> Self {
        Self { is_number: true, ..self }
    }
}

/// The headings, then the rows, none wider than the room there is. A column without anything in it is left out.
#[must_use]
pub fn lines(columns: &[Column], rows: &[Vec<Line>], room: usize) -> Vec<Line> {
    let chosen = choose(columns, rows, room);
    let headings: Vec<Line> = columns.iter().map(|c| Line::painted(Style::Dim, &c.heading)).collect();
    let row = |cells: &[Line]| {
        let mut line = Line::default();
        for (at, (column, width)) in chosen.iter().enumerate() {
            let cell = cells.get(*column).cloned().unwrap_or_default().cut(*width);
            let gap = " ".repeat(if at == 0 { 0 } else { GAP });
            let fill = " ".repeat(width - cell.width());
            line =
                if columns[*column].is_number { line.plus(gap + &fill).then(cell) } else { line.plus(gap).then(cell).plus(fill) };
        }
        line.trimmed().cut(room)
    };
    std::iter::once(&headings).chain(rows).map(|cells| row(cells)).collect()
}

/// The least room in which no column is left out.
#[must_use]
pub fn least(columns: &[Column], rows: &[Vec<Line>]) -> usize {
    let narrow = choose(columns, rows, usize::MAX).into_iter().map(|(at, width)| columns[at].least.map_or(width, |l| l.min(width)));
    narrow.map(|w| w + GAP).sum::<usize>().saturating_sub(GAP)
}

/// The columns that are shown, and how wide each is.
fn choose(columns: &[Column], rows: &[Vec<Line>], room: usize) -> Vec<(usize, usize)> {
    let natural = |at: usize| {
        let widest = rows.iter().filter_map(|r| r.get(at)).map(Line::width).max().unwrap_or(0).max(columns[at].reserved);
        (widest > 0).then(|| (at, widest.max(Line::plain(&columns[at].heading).width())))
    };
    let mut chosen: Vec<(usize, usize)> = (0..columns.len()).filter_map(natural).collect();
    let least = |(at, width): &(usize, usize)| columns[*at].least.map_or(*width, |l| l.min(*width));
    let total = |widths: &mut dyn Iterator<Item = usize>| widths.map(|w| w + GAP).sum::<usize>().saturating_sub(GAP);
    loop {
        let droppable = chosen.iter().filter_map(|(at, _)| columns[*at].importance.map(|i| (i, *at)));
        let Some((importance, candidate)) = droppable.min() else { break };
        // What is merely nice to have does not narrow the others.
        let narrow = |one: &(usize, usize)| if importance < WORTH_NARROWING_FOR && one.0 != candidate { one.1 } else { least(one) };
        if total(&mut chosen.iter().map(narrow)) <= room {
            break;
        }
        chosen.retain(|(at, _)| *at != candidate);
    }
    let mut excess = total(&mut chosen.iter().map(|c| c.1)).saturating_sub(room);
    let mut order: Vec<usize> = (0..chosen.len()).collect();
    order.sort_by_key(|at| columns[chosen[*at].0].importance.unwrap_or(u8::MAX));
    for at in order {
        let spared = excess.min(chosen[at].1 - least(&chosen[at]));
        chosen[at].1 -= spared;
        excess -= spared;
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::super::sample::PLAIN;
    use super::*;

    fn shown(room: usize) -> Vec<String> {
        let columns = [
            Column::always("NAME").at_least(4),
            Column::with_room("TIME", 90).number(),
            Column::with_room("EMPTY", 8),
            Column::with_room("ABOUT", 1).at_least(6),
        ];
        let row = |cells: [&str; 4]| cells.map(Line::plain).to_vec();
        let rows = [row(["incomparable", "1s", "", "npm install"]), row(["b", "12s", "", "x"])];
        lines(&columns, &rows, room).iter().map(|l| l.render(PLAIN)).collect()
    }

    #[test]
    fn what_matters_least_goes_first() {
        assert_eq!(shown(80), ["NAME          TIME  ABOUT", "incomparable    1s  npm install", "b              12s  x"]);
        assert_eq!(shown(28), ["NAME          TIME  ABOUT", "incomparable    1s  npm ins…", "b              12s  x"]);
        assert_eq!(shown(25), ["NAME          TIME", "incomparable    1s", "b              12s"]);
        assert_eq!(shown(12), ["NAME    TIME", "incom…    1s", "b        12s"]);
        assert_eq!(shown(7), ["NAME", "incomp…", "b"]);
        assert_eq!(shown(2), ["N…", "i…", "b"]);
    }
}
