//! The two lines at the bottom: keys or what just happened, and where the review stands.

use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::text::{Line, Span};

use super::{span, spread};
use crate::review::app::{App, Pane};
use crate::review::layout::Areas;
use crate::review::theme::{Theme, Tone};
use crate::review::wrap;

const IN_FILES: [(&str, &str); 9] = [
    ("a", "accept"),
    ("x", "reject"),
    ("u", "clear"),
    ("A", "all safe"),
    ("w", "apply"),
    ("/", "search"),
    ("?", "help"),
    ("q", "quit"),
    ("n", "next"),
];
const IN_HUNKS: [(&str, &str); 7] =
    [("a", "accept hunk"), ("x", "reject hunk"), ("n p", "hunks"), ("Tab", "files"), ("/", "search"), ("?", "help"), ("q", "quit")];

/// Draws them; where something is typed, says where the cursor goes.
pub fn draw(buffer: &mut Buffer, app: &App, areas: Areas, theme: Theme) -> Option<Position> {
    status(buffer, app, areas.status, theme);
    let area = areas.hints;
    if let Some(prompt) = &app.prompt {
        let text = format!(" /{}", whatif_patch::escape(prompt.text.as_bytes()));
        buffer.set_line(area.x, area.y, &Line::from(span(theme, Tone::Strong, text.clone())), area.width);
        return Some(Position::new(area.x + (wrap::width(&text) as u16).min(area.width.saturating_sub(1)), area.y));
    }
    let line = match (&app.hunt, &app.message) {
        (Some(hunt), _) => {
            let progress = format!(" searching … {} %, Esc stops it", hunt.progress(app.tree.nodes.len()));
            Line::from(span(theme, Tone::Dim, progress))
        }
        (None, Some((tone, words))) => Line::from(span(theme, *tone, format!(" {words}"))),
        (None, None) => hints(app, area, theme),
    };
    buffer.set_line(area.x, area.y, &line, area.width);
    None
}

/// As many as fit.
fn hints(app: &App, area: Rect, theme: Theme) -> Line<'static> {
    let all: &[(&str, &str)] = match app.pane {
        Pane::Files => &IN_FILES,
        Pane::Hunks => &IN_HUNKS,
    };
    let mut spans = vec![Span::raw(" ")];
    let mut room = (area.width as usize).saturating_sub(1);
    for (key, words) in all {
        let width = key.len() + words.len() + 3;
        if width > room {
            break;
        }
        room -= width;
        spans.push(span(theme, Tone::Focus, *key));
        spans.push(span(theme, Tone::Dim, format!(" {words}  ")));
    }
    Line::from(spans)
}

fn status(buffer: &mut Buffer, app: &App, area: Rect, theme: Theme) {
    let next = if app.decisions.tally().taken() > 0 { app.next_step() } else { String::new() };
    let needed = |line: &Line| line.width() + wrap::width(&next) + "next: ".len() + 1;
    let (long, short) = (standing(app, true, theme), standing(app, false, theme));
    let left = if next.is_empty() || needed(&long) < area.width as usize { long } else { short };
    let right = if next.is_empty() {
        Line::default()
    } else {
        Line::from(vec![span(theme, Tone::Dim, "next: "), span(theme, Tone::Strong, format!("{next} "))])
    };
    spread(buffer, area, left, right);
}

/// How many changes stand where, in words or without.
fn standing(app: &App, in_words: bool, theme: Theme) -> Line<'static> {
    let tally = app.decisions.tally();
    let counts = [
        (Tone::Good, "✓", tally.accepted, " accepted"),
        (Tone::Bad, "✗", tally.rejected, " rejected"),
        (Tone::Warning, "◐", tally.partly, " in part"),
        (Tone::Plain, "·", tally.undecided, " undecided"),
    ];
    let mut spans = vec![Span::raw(" ")];
    for (tone, symbol, count, words) in counts.into_iter().filter(|c| c.2 > 0 || c.1 != "◐") {
        // What is left to do is always said.
        let words = if in_words || symbol == "·" { words } else { "" };
        spans.push(span(theme, tone, format!("{symbol} {count}{words}")));
        spans.push(Span::raw("  "));
    }
    Line::from(spans)
}
