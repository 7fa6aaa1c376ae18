//! Clicks choose, the wheel scrolls.

use ratatui::crossterm::event::{MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::Position;

use super::app::{App, Pane};
use super::document::Line;
use super::layout::{Areas, inner};

const WHEEL: isize = 3;

impl App {
    pub fn point(&mut self, event: MouseEvent, areas: Areas) {
        let at = Position::new(event.column, event.row);
        let pane = match at {
            at if areas.files.contains(at) => Pane::Files,
            at if areas.hunks.contains(at) => Pane::Hunks,
            _ => return,
        };
        match (event.kind, pane) {
            (MouseEventKind::ScrollDown, Pane::Files) => self.list.scroll(WHEEL),
            (MouseEventKind::ScrollUp, Pane::Files) => self.list.scroll(-WHEEL),
            (MouseEventKind::ScrollDown, Pane::Hunks) => drop(self.viewer.scroll(WHEEL)),
            (MouseEventKind::ScrollUp, Pane::Hunks) => drop(self.viewer.scroll(-WHEEL)),
            (MouseEventKind::Down(MouseButton::Left), Pane::Files) => self.click_file(at, areas),
            (MouseEventKind::Down(MouseButton::Left), Pane::Hunks) => self.click_hunk(at, areas),
            _ => return,
        }
        self.message = None;
        self.show_selected();
    }

    fn click_file(&mut self, at: Position, areas: Areas) {
        self.pane = Pane::Files;
        let area = inner(areas.files);
        if !area.contains(at) {
            return;
        }
        let row = self.list.top + (at.y - area.y) as usize;
        if row < self.list.rows.len() {
            // A second click on a directory folds it.
            if row == self.list.cursor {
                self.list.fold(&self.tree, None);
            }
            self.list.go_to(row);
        }
    }

    fn click_hunk(&mut self, at: Position, areas: Areas) {
        self.pane = Pane::Hunks;
        let area = inner(areas.hunks);
        if !area.contains(at) {
            return;
        }
        let mut row = (at.y - area.y) as usize;
        for (line, rows) in self.viewer.in_view() {
            if row < rows.len() {
                match self.viewer.document.lines[line] {
                    Line::Head(hunk) => self.viewer.hunk = hunk,
                    Line::Text(text) => self.viewer.hunk = text.hunk,
                    _ => {}
                }
                return;
            }
            row -= rows.len();
        }
    }
}
