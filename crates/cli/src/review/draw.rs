//! The review on a screen. Reads the state, changes nothing.

mod files;
mod footer;
mod help;
mod hunks;

use ratatui::Frame;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, BorderType, Widget};

use super::app::{App, Pane};
use super::decisions::Mark;
use super::layout::Areas;
use super::theme::{Theme, Tone};

/// Columns and rows without which there is nothing to be seen.
const LEAST: (u16, u16) = (20, 6);

/// Draws everything.
pub fn draw(frame: &mut Frame, app: &App, areas: Areas, theme: Theme) {
    let whole = frame.area();
    if whole.width < LEAST.0 || whole.height < LEAST.1 {
        frame.buffer_mut().set_line(whole.x, whole.y, &Line::from("too small"), whole.width);
        return;
    }
    if areas.files.width > 0 {
        files::draw(frame.buffer_mut(), app, areas.files, theme);
    }
    if areas.hunks.width > 0 {
        hunks::draw(frame.buffer_mut(), app, areas.hunks, theme);
    }
    if let Some(cursor) = footer::draw(frame.buffer_mut(), app, areas, theme) {
        frame.set_cursor_position(cursor);
    }
    if app.help {
        help::draw(frame, theme);
    }
}

/// A border with titles at its left and right, and how far one has scrolled. Parts are of the same unit.
struct Bordered<'a> {
    area: Rect,
    is_focused: bool,
    left: Line<'a>,
    right: Line<'a>,
    /// First part in view, parts in view, all parts.
    scroll: (usize, usize, usize),
}

impl Bordered<'_> {
    fn draw(self, buffer: &mut Buffer, theme: Theme) {
        let style = theme.style(if self.is_focused { Tone::Focus } else { Tone::Dim });
        let block = Block::bordered().border_type(BorderType::Rounded).border_style(style);
        block.title_top(self.left).title_top(self.right.right_aligned()).render(self.area, buffer);
        let (first, seen, all) = self.scroll;
        let rows = self.area.height.saturating_sub(2) as usize;
        if all > seen && rows > 0 {
            let length = (rows * seen / all).clamp(1, rows);
            let start = ((rows - length) * first).div_ceil((all - seen).max(1)).min(rows - length);
            for row in start..start + length {
                let at = (self.area.right() - 1, self.area.y + 1 + row as u16);
                buffer[at].set_symbol("┃").set_style(style);
            }
        }
    }
}

fn is_focused(app: &App, pane: Pane) -> bool {
    app.pane == pane && !app.help
}

fn mark(mark: Mark) -> (&'static str, Tone) {
    match mark {
        Mark::Undecided => ("·", Tone::Dim),
        Mark::Lapsed => ("↺", Tone::Warning),
        Mark::Accepted => ("✓", Tone::Good),
        Mark::Rejected => ("✗", Tone::Bad),
        Mark::Partly => ("◐", Tone::Warning),
        Mark::Blocked => ("⊘", Tone::Dim),
        Mark::Implied => (" ", Tone::Dim),
    }
}

fn span(theme: Theme, tone: Tone, text: impl Into<String>) -> Span<'static> {
    Span::styled(text.into(), theme.style(tone))
}

/// Draws pieces at the left and others at the right end of a row; what is at the right is left out if there is no room.
fn spread(buffer: &mut Buffer, area: Rect, left: Line, right: Line) {
    let (taken, wanted) = (left.width() as u16, right.width() as u16);
    buffer.set_line(area.x, area.y, &left, area.width);
    if wanted > 0 && taken + wanted < area.width {
        buffer.set_line(area.right() - wanted, area.y, &right, wanted);
    }
}

/// The chosen line: in one colour where the focus is, so that it is seen at once.
fn select(buffer: &mut Buffer, row: Rect, is_focused: bool, theme: Theme) {
    if is_focused {
        for x in row.left()..row.right() {
            buffer[(x, row.y)].set_style(Style::reset());
        }
        buffer.set_style(row, theme.style(Tone::Cursor));
    } else {
        buffer.set_style(row, theme.style(Tone::FaintCursor));
    }
}

#[cfg(test)]
#[path = "draw_tests.rs"]
mod tests;
