//! Lines of coloured text, measured in columns of a terminal.
//!
//! Most of what is shown comes from programs nobody trusts: nothing that is put into a line can reach a terminal as an escape
//! sequence, hide in it or turn it around.

use ratatui::text::Span;

use super::brush::Brush;
use crate::output::{Style, printable};

const TAB: usize = 8;

/// Pieces of text, each in one style.
#[derive(Clone, Debug, Default)]
pub struct Line {
    pieces: Vec<(String, Option<Style>)>,
}

impl Line {
    #[must_use]
    pub fn plain(text: impl AsRef<str>) -> Self {
        Self::default().plus(text)
    }

    #[must_use]
    pub fn painted(style: Style, text: impl AsRef<str>) -> Self {
        Self::default().with(style, text)
    }

    #[must_use]
    pub fn plus(mut self, text: impl AsRef<str>) -> Self {
        self.pieces.push((visible(text.as_ref()), None));
        self
    }

    #[must_use]
    pub fn with(mut self, style: Style, text: impl AsRef<str>) -> Self {
        self.pieces.push((visible(text.as_ref()), Some(style)));
        self
    }

    #[must_use]
    pub fn then(mut self, line: Self) -> Self {
        self.pieces.extend(line.pieces);
        self
    }

    #[must_use]
    pub fn width(&self) -> usize {
        self.pieces.iter().map(|(text, _)| width(text)).sum()
    }

    /// Without its colours.
    #[must_use]
    pub fn text(&self) -> String {
        self.pieces.iter().map(|(text, _)| text.as_str()).collect()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pieces.iter().all(|(text, _)| text.is_empty())
    }

    /// No wider than this; what is cut off leaves a `…`.
    #[must_use]
    pub fn cut(self, room: usize) -> Self {
        if self.width() <= room {
            return self;
        }
        let mut left = room;
        let mut pieces = Vec::new();
        for (text, style) in self.pieces {
            let taken = width(&text);
            if taken < left {
                left -= taken;
                pieces.push((text, style));
            } else {
                pieces.push((cut_end(&text, left), style));
                break;
            }
        }
        Self { pieces }
    }

    /// Without blanks at its end.
    #[must_use]
    pub fn trimmed(mut self) -> Self {
        while let Some((text, _)) = self.pieces.last_mut() {
            text.truncate(text.trim_end().len());
            if !text.is_empty() {
                break;
            }
            self.pieces.pop();
        }
        self
    }

    /// As it is written to a terminal or a file.
    #[must_use]
    pub fn render(&self, brush: Brush<'_>) -> String {
        self.pieces.iter().map(|(text, style)| brush.paint(*style, text)).collect()
    }
}

/// All of it on one line, and nothing in it that is not what it seems.
#[must_use]
pub fn visible(text: &str) -> String {
    printable(text)
}

/// Columns that text takes.
#[must_use]
pub fn width(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { Span::raw(text).width() }
}

/// Printable text, cut at its end.
fn cut_end(text: &str, room: usize) -> String {
    if room == 0 {
        return String::new();
    }
    let mut cut = String::new();
    for c in text.chars() {
        cut.push(c);
        if width(&cut) >= room {
            cut.pop();
            break;
        }
    }
    cut.push('…');
    cut
}

/// A path, cut at its beginning: its end says more.
#[must_use]
pub fn cut_start(text: &str, room: usize) -> String {
    let text = visible(text);
    if width(&text) <= room {
        return text;
    }
    let starts = text.char_indices().map(|(at, _)| at);
    let rest = starts.map(|at| &text[at..]).find(|rest| width(rest) < room).unwrap_or_default();
    format!("…{rest}")
}

/// Words of a text in rows of at most this width.
#[must_use]
pub fn wrapped(text: &str, room: usize) -> Vec<String> {
    let mut rows = vec![String::new()];
    for word in visible(text).split_whitespace() {
        let Some(row) = rows.last_mut() else { break };
        if row.is_empty() {
            row.push_str(word);
        } else if width(row) + 1 + width(word) <= room {
            row.push(' ');
            row.push_str(word);
        } else {
            rows.push(word.to_owned());
        }
    }
    rows
}

/// A line that a program printed, as a terminal would have shown it, without its colours.
#[must_use]
pub fn printed(line: &str) -> String {
    let line = line.trim_end_matches('\r');
    // What comes after a carriage return was written over what was before it.
    let line = line.rsplit('\r').next().unwrap_or(line);
    let mut text = String::new();
    let mut rest = line.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\t' => (0..TAB - width(&text) % TAB).for_each(|_| text.push(' ')),
            '\x1b' if rest.next_if_eq(&'[').is_some() => while rest.next().is_some_and(|c| !matches!(c, '@'..='~')) {},
            c => text.push(c),
        }
    }
    visible(&text)
}

#[cfg(test)]
mod tests {
    use super::super::sample::PLAIN;
    use super::*;

    #[test]
    fn wide_characters_are_cut_where_they_end() {
        let cut = |text: &str, room| Line::plain(text).cut(room).render(PLAIN);
        assert_eq!(cut("日本語", 6), "日本語");
        assert_eq!(cut("日本語", 5), "日本…");
        assert_eq!(cut("日本語", 4), "日…");
        assert_eq!(cut("日本語", 0), "");
        assert_eq!(cut("naïve", 4), "naï…");
        assert_eq!((cut_start("src/deep/日本.rs", 8), cut_start("a.rs", 8)), ("…日本.rs".into(), "a.rs".into()));
    }

    #[test]
    fn a_cut_keeps_the_pieces_before_it() {
        let line = Line::plain("1 file").with(Style::Green, " +10").with(Style::Red, " −2");
        assert_eq!(line.clone().cut(9).render(PLAIN), "1 file +…");
        assert_eq!((line.width(), line.clone().cut(line.width()).render(PLAIN)), (13, "1 file +10 −2".into()));
        assert_eq!(line.clone().cut(6).render(PLAIN), "1 fil…");
        assert_eq!(line.cut(10).render(PLAIN), "1 file +1…");
    }

    #[test]
    fn nothing_in_a_line_is_an_escape_sequence() {
        let hostile = Line::plain("a\x1b[2Jb\r\n\u{202e}c\u{9b}31m").render(PLAIN);
        assert_eq!(hostile, "a\\x1b[2Jb\\r\\n\\u{202e}c\\u{9b}31m");
    }

    #[test]
    fn what_a_program_printed_is_shown_without_its_colours() {
        assert_eq!(printed("\x1b[1;31mFAIL\x1b[0m\tx\r"), "FAIL    x");
        assert_eq!(printed("10%\r50%\r100%"), "100%");
        assert_eq!(printed("\x1b]0;title\x07 \x1b[31"), "\\x1b]0;title\\x07 ");
    }

    #[test]
    fn words_are_wrapped() {
        assert_eq!(wrapped("one\ntwo\t\x1b", 20), ["one\\ntwo\\t\\x1b"]);
        assert_eq!(wrapped("one two  three", 7), ["one two", "three"]);
        assert_eq!(wrapped("", 7), [""]);
        assert_eq!(wrapped("incomprehensible a", 7), ["incomprehensible", "a"]);
    }
}
