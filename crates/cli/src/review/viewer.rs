//! The part of a document that is in view. Lines are wrapped when they are looked at, never all of them.

use super::document::{Document, Line};
use super::theme::Tone;
use super::wrap;

/// A row of the screen: a line of the document, and which of its rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    pub line: usize,
    pub row: usize,
}

#[derive(Debug, Default)]
pub struct Viewer {
    pub document: Document,
    pub top: Position,
    /// The one that keys decide about.
    pub hunk: usize,
    pub width: usize,
    pub height: usize,
}

/// From here on there is room for the line numbers of both sides.
const WIDE: usize = 64;

impl Viewer {
    /// Shows another document from its start.
    pub fn open(&mut self, document: Document) {
        (self.document, self.top, self.hunk) = (document, Position::default(), 0);
    }

    pub fn resize(&mut self, width: usize, height: usize) {
        (self.width, self.height) = (width, height.max(1));
        // What was wrapped is wrapped differently now.
        self.top.row = 0;
        self.top = self.top.min(self.last_top());
    }

    #[must_use]
    pub fn is_wide(&self) -> bool {
        self.width >= WIDE
    }

    /// Columns left of the text: a bar, numbers, a sign.
    #[must_use]
    pub fn gutter(&self) -> usize {
        let digits = self.document.digits();
        1 + if self.is_wide() { 2 * digits + 1 } else { digits } + 3
    }

    #[must_use]
    pub fn text_width(&self) -> usize {
        self.width.saturating_sub(self.gutter()).max(1)
    }

    /// Rows a line takes.
    #[must_use]
    pub fn rows_of(&self, line: usize) -> usize {
        match self.document.lines.get(line) {
            Some(Line::Note(_, text)) => wrap::rows(text.as_bytes(), Tone::Plain, &[], self.width).len(),
            Some(Line::Text(text)) => {
                let bytes = &self.document.text(text).text;
                let bytes = bytes.strip_suffix(b"\n").unwrap_or(bytes);
                // The usual case needs no wrapping to be counted.
                if bytes.len() < self.text_width() && bytes.iter().all(|b| matches!(b, b' '..=b'~')) {
                    return 1;
                }
                wrap::rows(bytes, Tone::Plain, &[], self.text_width()).len()
            }
            _ => 1,
        }
    }

    /// Moves the view by rows; says whether it moved.
    pub fn scroll(&mut self, rows: isize) -> bool {
        let before = self.top;
        for _ in 0..rows.unsigned_abs() {
            let moved = if rows > 0 { self.step_down() } else { self.step_up() };
            if !moved {
                break;
            }
        }
        self.keep_hunk_in_view();
        self.top != before
    }

    pub fn go_to_start(&mut self) {
        (self.top, self.hunk) = (Position::default(), 0);
    }

    pub fn go_to_end(&mut self) {
        (self.top, self.hunk) = (self.last_top(), self.document.hunks.len().saturating_sub(1));
    }

    /// Goes to a hunk, counted from 0; says whether there is such a hunk.
    pub fn go_to_hunk(&mut self, hunk: usize) -> bool {
        let Some(head) = self.document.heads.get(hunk) else { return false };
        self.hunk = hunk;
        let end = self.document.heads.get(hunk + 1).map_or(self.document.lines.len(), |next| next - 1);
        if !(self.is_in_view(*head) && self.is_in_view(end - 1)) {
            // One blank line above tells that it starts here.
            let above = Position { line: head.saturating_sub(1), row: 0 };
            self.top = above.min(self.last_top());
        }
        true
    }

    /// Brings a line into view, and its hunk into focus.
    pub fn go_to_line(&mut self, line: usize) {
        if !self.is_in_view(line) {
            self.top = Position { line, row: 0 };
            for _ in 0..self.height / 3 {
                self.step_up();
            }
            self.top = self.top.min(self.last_top());
        }
        self.hunk = self.document.hunk_at(line);
    }

    /// Lines in view, each with the rows of it that are.
    #[must_use]
    pub fn in_view(&self) -> Vec<(usize, std::ops::Range<usize>)> {
        let mut seen = Vec::new();
        let mut room = self.height;
        let mut at = self.top;
        while room > 0 && at.line < self.document.lines.len() {
            let rows = self.rows_of(at.line);
            let end = rows.min(at.row + room);
            seen.push((at.line, at.row..end));
            room -= end.saturating_sub(at.row);
            at = Position { line: at.line + 1, row: 0 };
        }
        seen
    }

    fn is_in_view(&self, line: usize) -> bool {
        self.in_view().iter().any(|(l, _)| *l == line)
    }

    /// A view that ends with the last row.
    fn last_top(&self) -> Position {
        let mut room = self.height;
        for line in (0..self.document.lines.len()).rev() {
            let rows = self.rows_of(line);
            if rows >= room {
                return Position { line, row: rows - room };
            }
            room -= rows;
        }
        Position::default()
    }

    fn step_down(&mut self) -> bool {
        if self.top >= self.last_top() {
            return false;
        }
        self.top = if self.top.row + 1 < self.rows_of(self.top.line) {
            Position { row: self.top.row + 1, ..self.top }
        } else {
            Position { line: self.top.line + 1, row: 0 }
        };
        true
    }

    fn step_up(&mut self) -> bool {
        match self.top {
            Position { line: 0, row: 0 } => return false,
            Position { line, row: 0 } => self.top = Position { line: line - 1, row: self.rows_of(line - 1) - 1 },
            Position { line, row } => self.top = Position { line, row: row - 1 },
        }
        true
    }

    /// Nobody decides about what is not shown.
    fn keep_hunk_in_view(&mut self) {
        let seen = self.in_view();
        let hunks = seen.iter().filter_map(|(line, _)| match self.document.lines[*line] {
            Line::Head(hunk) => Some(hunk),
            Line::Text(text) => Some(text.hunk),
            _ => None,
        });
        let hunks: Vec<usize> = hunks.collect();
        if let (Some(first), Some(last)) = (hunks.first(), hunks.last()) {
            self.hunk = self.hunk.clamp(*first, *last);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::super::sample;
    use super::*;

    fn viewer(width: usize, height: usize) -> Viewer {
        let change = &sample::changes(&["M f"])[0];
        let mut viewer = Viewer::default();
        viewer.open(Document::of(change, None, Path::new(sample::PROJECT), sample::content, false));
        viewer.resize(width, height);
        viewer
    }

    #[test]
    fn scrolling_ends_at_the_last_row() {
        let mut viewer = viewer(60, 10);
        assert!(viewer.scroll(1000));
        assert!(!viewer.scroll(1), "there is nothing below");
        let seen = viewer.in_view();
        assert_eq!(seen.last().unwrap().0, viewer.document.lines.len() - 1);
        assert_eq!(seen.iter().map(|(_, rows)| rows.len()).sum::<usize>(), 10);
        viewer.scroll(-1000);
        assert_eq!(viewer.top, Position::default());
    }

    #[test]
    fn the_current_hunk_is_always_in_view() {
        let mut viewer = viewer(60, 6);
        assert_eq!(viewer.hunk, 0);
        viewer.scroll(1000);
        assert_eq!(viewer.hunk, 1);
        viewer.scroll(-1000);
        assert_eq!(viewer.hunk, 0);
        assert!(viewer.go_to_hunk(1) && !viewer.go_to_hunk(2));
        assert!(viewer.in_view().iter().any(|(l, _)| *l == viewer.document.heads[1]));
    }

    #[test]
    fn wrapped_lines_are_scrolled_row_by_row() {
        let mut viewer = viewer(16, 5);
        let rows: usize = (0..viewer.document.lines.len()).map(|l| viewer.rows_of(l)).sum();
        let steps = (0..).take_while(|_| viewer.scroll(1)).count();
        assert_eq!(steps, rows - 5);
    }

    #[test]
    fn an_empty_document_is_no_trouble() {
        let mut viewer = Viewer::default();
        viewer.resize(80, 20);
        assert!(!viewer.scroll(1) && !viewer.scroll(-1) && !viewer.go_to_hunk(0));
        viewer.go_to_end();
        assert_eq!(viewer.top, Position::default());
    }
}
