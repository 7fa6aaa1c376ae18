//! One line of a file as rows of a terminal: nothing cut off at the right, nothing that is not what it seems.

use std::ops::Range;

use ratatui::text::Span;

use super::theme::Tone;

/// What is further right in a line is counted, not shown.
const LONGEST: usize = 64 << 10;
const TAB: usize = 4;

/// Pieces of one row, each in one tone.
pub type Row = Vec<(String, Tone)>;

/// Fills rows of a fixed width.
struct Rows {
    rows: Vec<Row>,
    column: usize,
    width: usize,
}

impl Rows {
    fn put(&mut self, text: &str, tone: Tone) {
        let width = width(text);
        if self.column + width > self.width && self.column > 0 {
            self.rows.push(Row::new());
            self.column = 0;
        }
        self.column += width;
        let Some(row) = self.rows.last_mut() else { return };
        match row.last_mut().filter(|(_, t)| *t == tone) {
            Some((piece, _)) => piece.push_str(text),
            None => row.push((text.to_owned(), tone)),
        }
    }
}

/// Wraps a line (without its newline) into at least one row. The first of the `marked` ranges that holds a byte gives its tone.
#[must_use]
pub fn rows(line: &[u8], base: Tone, marked: &[(Range<usize>, Tone)], width: usize) -> Vec<Row> {
    let shown = &line[..line.len().min(LONGEST)];
    let tone_at = |at: usize| marked.iter().find(|(range, _)| range.contains(&at)).map_or(base, |(_, tone)| *tone);
    let mut rows = Rows { rows: vec![Row::new()], column: 0, width: width.max(1) };
    let mut at = 0;
    let mut buffer = [0; 4];
    for chunk in shown.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                '\t' => {
                    for _ in 0..TAB - rows.column % TAB {
                        rows.put(" ", tone_at(at));
                    }
                }
                // One half of a line's end, common enough.
                '\r' if at + 1 == line.len() => rows.put("\\r", Tone::Dim),
                c if whatif_patch::is_misleading(c) => {
                    let escaped = whatif_patch::escape(c.encode_utf8(&mut buffer).as_bytes());
                    escaped.chars().for_each(|e| rows.put(e.encode_utf8(&mut [0; 4]), Tone::Hidden));
                }
                c => rows.put(c.encode_utf8(&mut buffer), tone_at(at)),
            }
            at += c.len_utf8();
        }
        for byte in chunk.invalid() {
            format!("\\x{byte:02x}").chars().for_each(|e| rows.put(e.encode_utf8(&mut [0; 4]), Tone::Hidden));
            at += 1;
        }
    }
    if line.len() > shown.len() {
        let more = format!(" … {} more bytes of this line are not shown", line.len() - shown.len());
        more.chars().for_each(|c| rows.put(c.encode_utf8(&mut [0; 4]), Tone::Warning));
    }
    rows.rows
}

/// Columns a text takes.
#[must_use]
pub fn width(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { Span::raw(text).width() }
}

/// The end of a text, if all of it is too wide: of a path, that is the part that tells.
#[must_use]
pub fn end_of(text: &str, most: usize) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    let mut room = most.saturating_sub(1);
    let mut start = text.len();
    for (at, c) in text.char_indices().rev() {
        let width = width(c.encode_utf8(&mut [0; 4]));
        if width > room {
            break;
        }
        room -= width;
        start = at;
    }
    format!("…{}", &text[start..])
}

/// The start of a text, if all of it is too wide.
#[must_use]
pub fn start_of(text: &str, most: usize) -> String {
    if width(text) <= most {
        return text.to_owned();
    }
    let mut room = most.saturating_sub(1);
    let fits = |c: &char| {
        let width = width(c.encode_utf8(&mut [0; 4]));
        let fits = width <= room;
        room = room.saturating_sub(width);
        fits
    };
    text.chars().take_while(fits).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(line: &[u8], width: usize) -> Vec<String> {
        rows(line, Tone::Plain, &[], width).iter().map(|r| r.iter().map(|(t, _)| t.as_str()).collect()).collect()
    }

    #[test]
    fn long_lines_go_on_in_the_next_row() {
        assert_eq!(texts(b"abcdefgh", 3), ["abc", "def", "gh"]);
        assert_eq!(texts(b"", 3), [""]);
        assert_eq!(texts("a変更".as_bytes(), 3), ["a変", "更"]);
        assert_eq!(texts("e\u{301}e\u{301}".as_bytes(), 2), ["e\u{301}e\u{301}"]);
    }

    #[test]
    fn tabs_and_hidden_characters_are_visible() {
        assert_eq!(texts(b"\ta\tb", 20), ["    a   b"]);
        assert_eq!(texts("x\u{202e}\x1b[0m\r".as_bytes(), 40), ["x\\u{202e}\\x1b[0m\\r"]);
        let pieces = rows("a\u{200b}".as_bytes(), Tone::Added, &[], 40);
        assert_eq!(pieces, [[("a".to_owned(), Tone::Added), ("\\u{200b}".to_owned(), Tone::Hidden)]]);
    }

    #[test]
    fn marked_ranges_have_their_tone() {
        let pieces = rows(b"let a = b", Tone::Added, &[(4..5, Tone::AddedWord)], 40);
        let expected = [("let ", Tone::Added), ("a", Tone::AddedWord), (" = b", Tone::Added)];
        assert_eq!(pieces, [expected.map(|(t, tone)| (t.to_owned(), tone))]);
    }

    #[test]
    fn endless_lines_end() {
        let rows = texts(&vec![b'x'; LONGEST + 5], 1 << 20);
        assert!(rows[0].ends_with("5 more bytes of this line are not shown"), "{}", rows[0].len());
    }

    #[test]
    fn what_is_too_wide_is_shortened() {
        assert_eq!(end_of("src/main.rs", 20), "src/main.rs");
        assert_eq!(end_of("src/main.rs", 8), "…main.rs");
        assert_eq!(end_of("変更変更", 5), "…変更");
        assert_eq!(end_of("abc", 0), "…");
        assert_eq!(start_of("abcdef", 4), "abc…");
    }
}
