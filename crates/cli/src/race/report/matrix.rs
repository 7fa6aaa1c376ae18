//! Files by attempt: who changed what, and who made the same of it.

use whatif_types::experiment::ChangedFile;

use super::Extent;
use super::next::command;
use crate::output::{Style, visible_path};
use crate::race::grid::{self, Column};
use crate::race::line::{Line, cut_start};
use crate::race::{Shown, words};
use whatif_engine::races::changed_files::{Cell, Matrix, is_same, matrix};

/// More columns than a window has room for; their cells are compared with each other.
const MOST_ATTEMPTS: usize = 20;
const MOST_ROWS: usize = 20;
const MOST_SHARED: usize = 5;
const LEAST_PATH: usize = 24;
const LEAST_NAME: usize = 6;

/// What stands in a cell.
#[derive(Clone, Copy)]
enum Form {
    /// `+1 −1`, `new +3`, `= b`.
    Words,
    /// `~A`: the same letter, the same content.
    Letters,
}

pub fn table(race: Shown<'_>, extent: Extent, room: usize) -> Vec<Line> {
    let matrix = matrix(race, MOST_ATTEMPTS);
    if matrix.attempts.is_empty() {
        return Vec::new();
    }
    if extent == Extent::Short {
        let how = format!("which files each attempt changed: {}", command("show", race));
        return vec![Line::painted(Style::Dim, how)];
    }
    let mut lines = Vec::new();
    if !matrix.rows.is_empty() {
        lines.extend(rows(&matrix, room));
    }
    if !matrix.shared.is_empty() {
        lines.push(shared(&matrix).cut(room));
    }
    lines
}

fn rows(matrix: &Matrix<'_>, room: usize) -> Vec<Line> {
    let all = matrix.attempts.len();
    // Words, if they fit; letters otherwise; the best only, if those do not fit either.
    let fits = |form, count| grid::least(&columns(matrix, count), &cells(matrix, form, count, room)) <= room;
    let (form, count) = match fits(Form::Words, all) {
        true => (Form::Words, all),
        false => (Form::Letters, (1..=all).rev().find(|count| fits(Form::Letters, *count)).unwrap_or(1)),
    };
    let mut lines = grid::lines(&columns(matrix, count), &cells(matrix, form, count, room), room);
    let mut notes = Vec::new();
    if matrix.rows.len() > MOST_ROWS {
        notes.push(format!("… and {} more", matrix.rows.len() - MOST_ROWS));
    }
    if count < all + matrix.left_out {
        notes.push(format!("of the best {count} of {}", all + matrix.left_out));
    }
    if matches!(form, Form::Letters) {
        notes.push("the same letter: the same content".to_owned());
    }
    if !notes.is_empty() {
        lines.push(Line::painted(Style::Dim, format!("  {}", notes.join("; "))).cut(room));
    }
    lines
}

fn columns(matrix: &Matrix<'_>, count: usize) -> Vec<Column> {
    let mut columns = vec![Column::always("FILE")];
    columns.extend(matrix.attempts.iter().take(count).map(|name| Column::always(name).at_least(LEAST_NAME)));
    columns
}

fn cells(matrix: &Matrix<'_>, form: Form, count: usize, room: usize) -> Vec<Vec<Line>> {
    let rows = matrix.rows.iter().take(MOST_ROWS);
    // Paths may take what the attempts leave, if that is more than the least.
    let beside = matrix.attempts.iter().take(count).map(|name| Line::plain(name).width().max(10) + 2).sum::<usize>();
    let longest = room.saturating_sub(beside).max(LEAST_PATH);
    rows.map(|(path, cells)| {
        let mut row = vec![Line::plain(cut_start(&visible_path(&path.to_path()), longest))];
        row.extend((0..count.min(cells.len())).map(|at| cell(matrix, cells, at, form)));
        row
    })
    .collect()
}

fn cell(matrix: &Matrix<'_>, cells: &[Cell<'_>], at: usize, form: Form) -> Line {
    let file = match cells[at] {
        Cell::Untouched => return Line::painted(Style::Dim, words::WAITING),
        Cell::Unknown => return Line::painted(Style::Dim, "?"),
        Cell::Changed(file) => file,
    };
    let first = cells.iter().position(|c| c.file().is_some_and(|other| is_same(other, file))).unwrap_or(at);
    match form {
        Form::Words if first < at => Line::painted(Style::Cyan, format!("= {}", matrix.attempts[first])),
        Form::Words => in_words(file),
        Form::Letters => {
            let mut kinds: Vec<&ChangedFile> = Vec::new();
            for other in cells.iter().filter_map(|c| c.file()) {
                if !kinds.iter().any(|kind| is_same(kind, other)) {
                    kinds.push(other);
                }
            }
            let kind = kinds.iter().position(|kind| is_same(kind, file)).unwrap_or(0);
            let letter = u8::try_from(kind).ok().filter(|k| *k < 26).map_or('*', |k| char::from(b'A' + k));
            Line::painted(style(file.mark), format!("{}{letter}", file.mark))
        }
    }
}

fn style(mark: char) -> Style {
    match mark {
        '+' => Style::Green,
        '-' => Style::Red,
        _ => Style::Yellow,
    }
}

fn in_words(file: &ChangedFile) -> Line {
    let counts = words::line_counts(file.added_lines, file.deleted_lines);
    let word = match file.mark {
        '+' => "new",
        '-' => "gone",
        '>' => "moved",
        _ if counts.is_empty() => "changed",
        _ => return counts,
    };
    let word = Line::painted(style(file.mark), word);
    if counts.is_empty() { word } else { word.plus(" ").then(counts) }
}

/// `the same in all: Cargo.lock (+1 −1), …`.
fn shared(matrix: &Matrix<'_>) -> Line {
    let files = &matrix.shared;
    let (shown, left_out) = (matrix.attempts.len(), matrix.left_out);
    let mut line = Line::painted(
        Style::Dim,
        match left_out {
            0 => "the same in all: ".to_owned(),
            _ => format!("the same in the best {shown} of {}: ", shown + left_out),
        },
    );
    for (at, file) in files.iter().take(MOST_SHARED).enumerate() {
        line = line
            .plus(if at == 0 { "" } else { ", " })
            .plus(visible_path(&file.path.to_path()))
            .plus(" (")
            .then(in_words(file))
            .plus(")");
    }
    if files.len() > MOST_SHARED { line.plus(format!(" and {} more", files.len() - MOST_SHARED)) } else { line }
}

#[cfg(test)]
mod tests;
