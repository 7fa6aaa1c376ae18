//! The right pane: notes and hunks of what is chosen.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use whatif_patch::LineKind;

use super::{Bordered, is_focused, mark, span, spread};
use crate::review::app::{App, Pane};
use crate::review::decisions::Mark;
use crate::review::document::{self, TextLine};
use crate::review::layout::inner;
use crate::review::theme::{Theme, Tone};
use crate::review::wrap::{self, end_of};

pub fn draw(buffer: &mut Buffer, app: &App, area: Rect, theme: Theme) {
    let right = decided(app);
    let room = (area.width as usize).saturating_sub(wrap::width(&right) + 6);
    let viewer = &app.viewer;
    let seen = viewer.in_view();
    let all = viewer.document.lines.len();
    Bordered {
        area,
        is_focused: is_focused(app, Pane::Hunks),
        left: Line::from(span(theme, Tone::Strong, format!(" {} ", end_of(&app.title(), room)))),
        right: Line::from(span(theme, Tone::Dim, right)),
        // By lines: counting rows would mean wrapping all of them.
        scroll: (
            viewer.top.line,
            if seen.last().is_some_and(|(l, _)| l + 1 == all) { all - viewer.top.line } else { seen.len() },
            all,
        ),
    }
    .draw(buffer, theme);
    let area = inner(area);
    let mut y = area.y;
    for (line, rows) in seen {
        for row in rows {
            draw_row(buffer, app, line, row, Rect { y, height: 1, ..area }, theme);
            y += 1;
        }
    }
}

/// What was decided about the file.
fn decided(app: &App) -> String {
    let Some(change) = app.chosen() else { return String::new() };
    let decided = match app.decisions.mark(change) {
        Mark::Accepted => "accepted",
        Mark::Rejected => "rejected",
        Mark::Partly => "accepted in part",
        Mark::Lapsed => "changed since it was decided",
        Mark::Blocked => "never applied",
        Mark::Undecided | Mark::Implied => return String::new(),
    };
    let (symbol, _) = mark(app.decisions.mark(change));
    format!(" {symbol} {decided} ")
}

fn draw_row(buffer: &mut Buffer, app: &App, line: usize, row: usize, area: Rect, theme: Theme) {
    let viewer = &app.viewer;
    match &viewer.document.lines[line] {
        document::Line::Note(tone, text) => {
            let rows = wrap::rows(text.as_bytes(), *tone, &[], viewer.width);
            buffer.set_line(area.x, area.y, &pieces(theme, rows.get(row)), area.width);
        }
        document::Line::Head(hunk) => draw_head(buffer, app, *hunk, area, theme),
        document::Line::Text(text) => draw_text(buffer, app, text, row, area, theme),
        document::Line::Unended => {
            let indent = " ".repeat(viewer.gutter());
            buffer.set_line(
                area.x,
                area.y,
                &Line::from(span(theme, Tone::Dim, format!("{indent}no newline at the end"))),
                area.width,
            );
        }
    }
}

fn draw_head(buffer: &mut Buffer, app: &App, hunk: usize, area: Rect, theme: Theme) {
    let hunks = &app.viewer.document.hunks;
    let h = &hunks[hunk];
    let place = format!("@@ -{},{} +{},{} @@", h.before_start, h.before_lines, h.after_start, h.after_lines);
    let number = if hunks.len() > 1 { format!(" hunk {} of {}", hunk + 1, hunks.len()) } else { String::new() };
    let left = vec![bar(app, hunk, theme), span(theme, Tone::Head, place), span(theme, Tone::Strong, number)];
    let decided = app.chosen().and_then(|c| app.decisions.hunk(&app.subject.changes[c], hunk));
    let (tone, symbol, words) = match decided.filter(|_| hunks.len() > 1) {
        Some(true) => (Tone::Good, "✓ ", "accepted "),
        Some(false) => (Tone::Bad, "✗ ", "stays out "),
        None => (Tone::Plain, "", ""),
    };
    let left = Line::from(left);
    let has_room = left.width() + symbol.len() + words.len() < area.width as usize;
    let right = span(theme, tone, format!("{symbol}{}", if has_room { words } else { "" }));
    spread(buffer, area, left, Line::from(right));
}

fn draw_text(buffer: &mut Buffer, app: &App, text: &TextLine, row: usize, area: Rect, theme: Theme) {
    let viewer = &app.viewer;
    let line = viewer.document.text(text);
    let (sign, base, word) = match line.kind {
        LineKind::Context => (" ", Tone::Plain, Tone::Plain),
        LineKind::Added => ("+", Tone::Added, Tone::AddedWord),
        LineKind::Removed => ("-", Tone::Removed, Tone::RemovedWord),
    };
    let bytes = line.text.strip_suffix(b"\n").unwrap_or(&line.text);
    let matches = app.query.iter().flat_map(|q| q.ranges(bytes)).map(|r| (r, Tone::Match));
    let words = viewer.document.words(text).into_iter().map(|r| (r, word));
    let marked: Vec<_> = matches.chain(words).collect();
    let rows = wrap::rows(bytes, base, &marked, viewer.text_width());
    let digits = viewer.document.digits();
    let number = |n: Option<usize>| n.map_or_else(|| " ".repeat(digits), |n| format!("{n:>digits$}"));
    let numbers = match (row, viewer.is_wide()) {
        (0, true) => format!("{} {}", number(text.before), number(text.after)),
        (0, false) => number(text.after.or(text.before)),
        (_, true) => " ".repeat(2 * digits + 1),
        (_, false) => " ".repeat(digits),
    };
    let sign = if row == 0 { span(theme, base, format!(" {sign} ")) } else { span(theme, Tone::Dim, " ↳ ") };
    let mut spans = vec![bar(app, text.hunk, theme), span(theme, Tone::Dim, numbers), sign];
    spans.extend(pieces(theme, rows.get(row)).spans);
    buffer.set_line(area.x, area.y, &Line::from(spans), area.width);
}

/// Beside the hunk that keys decide about.
fn bar(app: &App, hunk: usize, theme: Theme) -> Span<'static> {
    let is_current = hunk == app.viewer.hunk && app.viewer.document.hunks.len() > 1;
    match (is_current, is_focused(app, Pane::Hunks)) {
        (true, true) => span(theme, Tone::Focus, "▌"),
        (true, false) => span(theme, Tone::Dim, "▏"),
        (false, _) => Span::raw(" "),
    }
}

fn pieces(theme: Theme, row: Option<&wrap::Row>) -> Line<'static> {
    let pieces = row.map_or(&[][..], Vec::as_slice);
    Line::from(pieces.iter().map(|(text, tone)| span(theme, *tone, text.clone())).collect::<Vec<_>>())
}
