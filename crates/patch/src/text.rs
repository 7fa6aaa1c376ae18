//! A file as lines, and whether it is text at all.

use std::ops::Range;

use imara_diff::sources::byte_lines;

/// How far git looks for a NUL before it calls a file text.
const BINARY_PROBE: usize = 8000;

/// Whether git would call this content binary: a NUL among the first 8000 bytes.
pub fn is_binary(bytes: &[u8]) -> bool {
    bytes[..bytes.len().min(BINARY_PROBE)].contains(&0)
}

/// The longest text that is compared line by line to be shown, and the most lines of one. Comparing takes about fifteen times
/// the size of a text with short lines.
const LONGEST_COMPARED: usize = 8 << 20;
const MOST_LINES: usize = 1 << 18;

/// Whether this is more than can be compared line by line in little memory.
pub fn is_too_long(bytes: &[u8]) -> bool {
    bytes.len() > LONGEST_COMPARED || bytes.iter().filter(|&&byte| byte == b'\n').count() > MOST_LINES
}

/// The lines of a text, each with its terminator. Only `\n` ends a line, so the `\r` of a CRLF stays in it.
pub fn lines(bytes: &[u8]) -> Vec<&[u8]> {
    byte_lines(bytes).collect()
}

/// A text that can be cut by line numbers.
pub(crate) struct Text<'a> {
    bytes: &'a [u8],
    /// Where each line starts, and the end of the last one.
    starts: Vec<usize>,
}

impl<'a> Text<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        let mut starts = vec![0];
        let mut at = 0;
        starts.extend(byte_lines(bytes).map(|line| {
            at += line.len();
            at
        }));
        Self { bytes, starts }
    }

    /// The number of lines.
    pub(crate) fn len(&self) -> usize {
        self.starts.len() - 1
    }

    pub(crate) fn line(&self, index: usize) -> &'a [u8] {
        self.cut(index..index + 1)
    }

    /// The bytes of a range of lines.
    pub(crate) fn cut(&self, range: Range<usize>) -> &'a [u8] {
        &self.bytes[self.starts[range.start]..self.starts[range.end]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_nul_near_the_start_makes_a_file_binary() {
        let mut bytes = vec![b'x'; 9000];
        assert!(!is_binary(&bytes));
        bytes[8000] = 0;
        assert!(!is_binary(&bytes));
        bytes[7999] = 0;
        assert!(is_binary(&bytes));
        assert!(!is_binary(b""));
    }

    #[test]
    fn lines_keep_their_terminators() {
        assert_eq!(lines(b""), Vec::<&[u8]>::new());
        assert_eq!(lines(b"a\r\n\nb"), [&b"a\r\n"[..], b"\n", b"b"]);
        assert_eq!(lines(b"a\rb\n"), [&b"a\rb\n"[..]]);
    }

    #[test]
    fn a_text_is_cut_by_lines() {
        let text = Text::new(b"a\nbb\nc");
        assert_eq!(text.len(), 3);
        assert_eq!(text.line(2), b"c");
        assert_eq!(text.cut(0..2), b"a\nbb\n");
        assert_eq!(text.cut(3..3), b"");
        assert_eq!(Text::new(b"").len(), 0);
    }
}
