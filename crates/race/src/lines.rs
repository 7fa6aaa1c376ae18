//! Lines out of a stream of bytes as a terminal would show them: without colours, whatever the chunks, in bounded memory.

/// Splits at line feeds and carriage returns, so that what a progress bar wrote over is a line of its own.
#[derive(Debug)]
pub struct Lines {
    longest: usize,
    line: Vec<u8>,
    /// The line is longer than that; none of it is shown.
    is_too_long: bool,
    /// A line feed after a carriage return ends nothing more.
    is_after_return: bool,
    escape: Escape,
}

/// Where in a control sequence of a terminal we are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Escape {
    Outside,
    /// After the escape character.
    Begun,
    /// Until its final letter: colours, movements.
    Control,
    /// Until a bell or an escape character: titles, links.
    Text,
    /// An escape sequence of two characters after the first.
    OneMore,
}

const ESCAPE: u8 = 0x1b;
const BELL: u8 = 0x07;

impl Lines {
    #[must_use]
    pub fn up_to(longest: usize) -> Self {
        Self { longest, line: Vec::new(), is_too_long: false, is_after_return: false, escape: Escape::Outside }
    }

    pub fn feed(&mut self, bytes: &[u8], show: &mut dyn FnMut(&str)) {
        for &byte in bytes {
            let is_after_return = std::mem::replace(&mut self.is_after_return, byte == b'\r');
            if byte == b'\n' && is_after_return {
                continue;
            }
            if matches!(byte, b'\n' | b'\r') {
                // A sequence that is never completed must not swallow the lines after it.
                self.escape = Escape::Outside;
                self.end_line(show);
            } else if self.is_shown(byte) {
                self.add(byte);
            }
        }
    }

    /// The last line need not be ended.
    pub fn finish(mut self, show: &mut dyn FnMut(&str)) {
        self.end_line(show);
    }

    fn end_line(&mut self, show: &mut dyn FnMut(&str)) {
        if !self.is_too_long {
            show(&String::from_utf8_lossy(&self.line));
        }
        self.line.clear();
        self.is_too_long = false;
    }

    fn add(&mut self, byte: u8) {
        if self.line.len() < self.longest {
            self.line.push(byte);
        } else {
            self.is_too_long = true;
        }
    }

    fn is_shown(&mut self, byte: u8) -> bool {
        let (next, is_shown) = match (self.escape, byte) {
            (Escape::Outside, ESCAPE) | (Escape::Text, ESCAPE) => (Escape::Begun, false),
            (Escape::Outside, _) => (Escape::Outside, true),
            (Escape::Begun, b'[') => (Escape::Control, false),
            (Escape::Begun, b']' | b'P' | b'X' | b'^' | b'_') => (Escape::Text, false),
            (Escape::Begun, 0x20..=0x2f) => (Escape::OneMore, false),
            (Escape::Begun, ESCAPE) => (Escape::Begun, false),
            (Escape::Begun | Escape::OneMore, _) | (Escape::Text, BELL) | (Escape::Control, 0x40..=0x7e) => {
                (Escape::Outside, false)
            }
            (within @ (Escape::Control | Escape::Text), _) => (within, false),
        };
        self.escape = next;
        is_shown
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn lines(chunks: &[&[u8]]) -> Vec<String> {
        let mut seen = Vec::new();
        let mut lines = Lines::up_to(10);
        for chunk in chunks {
            lines.feed(chunk, &mut |line| seen.push(line.to_owned()));
        }
        lines.finish(&mut |line| seen.push(line.to_owned()));
        seen
    }

    #[test]
    fn colours_titles_and_progress_bars_are_taken_away() {
        let table: [(&[u8], &[&str]); 8] = [
            (b"a\nb", &["a", "b"]),
            (b"a\r\nb\n", &["a", "b", ""]),
            (b"1/2\r2/2\n\n", &["1/2", "2/2", "", ""]),
            (b"\x1b[1;32mok\x1b[0m", &["ok"]),
            (b"\x1b]0;title\x07a\x1b]8;;http://x\x1b\\b", &["ab"]),
            (b"\x1b(Ba\x1b7b\x1b[38;2;1;2;3mc", &["abc"]),
            (b"\x1b]never\nended", &["", "ended"]),
            (b"caf\xc3\xa9\xff", &["caf\u{e9}\u{fffd}"]),
        ];
        for (bytes, expected) in table {
            assert_eq!(lines(&[bytes]), expected, "{}", bytes.escape_ascii());
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_left_out_whole() {
        assert_eq!(lines(&[b"0123456789\n0123456789a\nnext"]), ["0123456789", "next"]);
    }

    proptest! {
        #[test]
        fn chunks_do_not_matter(bytes: Vec<u8>, at: prop::sample::Index) {
            let (front, back) = bytes.split_at(if bytes.is_empty() { 0 } else { at.index(bytes.len()) });
            prop_assert_eq!(lines(&[front, back]), lines(&[&bytes]));
        }
    }
}
