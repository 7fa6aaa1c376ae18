//! Characters that make a text look like something it is not, made visible.

use std::fmt::Write;

/// Whether a character hides, moves or imitates text: controls other than the tab, bidirectional controls, characters
/// without width, blanks that are letters, tags. Variation selectors are not: they only choose between two looks.
pub fn is_misleading(c: char) -> bool {
    match c {
        '\t' => false,
        ' '..='~' => false,
        // Soft hyphen, grapheme joiner, Arabic letter mark, Hangul fillers, Khmer inherent vowels, Mongolian separator.
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180e}' => true,
        // Zero-width characters and direction marks; line and paragraph separators; embeddings and overrides.
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' => true,
        // Word joiner, invisible operators, isolates, deprecated format controls.
        '\u{2060}'..='\u{206f}' => true,
        // More fillers, the byte order mark, interlinear annotations, tags.
        '\u{3164}' | '\u{ffa0}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}' => true,
        _ => c.is_control(),
    }
}

/// How many misleading characters a text has. Its line ends, LF or CRLF, and a byte order mark at its very start do not
/// count; a carriage return elsewhere does.
pub fn hidden_characters(text: &[u8]) -> usize {
    let plain = |&byte: &u8| matches!(byte, b' '..=b'~' | b'\t' | b'\n');
    if text.iter().all(plain) {
        return 0;
    }
    let text = text.strip_prefix("\u{feff}".as_bytes()).unwrap_or(text);
    let misleading = text.utf8_chunks().flat_map(|chunk| chunk.valid().chars()).filter(|&c| is_misleading(c)).count();
    misleading - line_ends(text)
}

/// The control characters that only end lines.
fn line_ends(text: &[u8]) -> usize {
    let mut previous = 0;
    let mut ends = 0;
    for &byte in text {
        if byte == b'\n' {
            ends += if previous == b'\r' { 2 } else { 1 };
        }
        previous = byte;
    }
    ends
}

/// One line or name, fit for a terminal: misleading characters and invalid bytes as visible escapes, tabs as they are. A
/// line end is escaped like any control character, so pass a line without it.
pub fn escape(text: &[u8]) -> String {
    let mut shown = String::with_capacity(text.len());
    for chunk in text.utf8_chunks() {
        for c in chunk.valid().chars() {
            escape_character(&mut shown, c);
        }
        for byte in chunk.invalid() {
            // Writing to a string cannot fail.
            let _ = write!(shown, "\\x{byte:02x}");
        }
    }
    shown
}

fn escape_character(shown: &mut String, c: char) {
    match c {
        '\n' => shown.push_str("\\n"),
        '\r' => shown.push_str("\\r"),
        _ if !is_misleading(c) => shown.push(c),
        // Writing to a string cannot fail.
        _ if c.is_ascii() => drop(write!(shown, "\\x{:02x}", c as u32)),
        _ => drop(write!(shown, "\\u{{{:x}}}", c as u32)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_misleads() {
        let misleading = "\u{0}\u{7}\u{1b}\r\n\u{7f}\u{85}\u{9b}\u{ad}\u{61c}\u{200b}\u{200d}\u{200e}\u{202a}\u{202e}\u{2028}\
                          \u{2060}\u{2066}\u{2069}\u{feff}\u{e0001}\u{e0020}\u{e007f}";
        for c in misleading.chars() {
            assert!(is_misleading(c), "{c:?}");
        }
        for c in "a \t~é変🙂\u{fe0f}\u{e0100}\u{301}\u{a0}".chars() {
            assert!(!is_misleading(c), "{c:?}");
        }
    }

    #[test]
    fn line_ends_are_not_hidden() {
        assert_eq!(hidden_characters(b"a\n\tb\r\n\r\n"), 0);
        assert_eq!(hidden_characters(b"a\rb\r\r\n"), 2);
        assert_eq!(hidden_characters(b"\x1b[31mred"), 1);
        assert_eq!(hidden_characters(b"\xff\xfe"), 0);
    }

    #[test]
    fn a_byte_order_mark_is_hidden_in_the_middle_only() {
        assert_eq!(hidden_characters("\u{feff}a\n".as_bytes()), 0);
        assert_eq!(hidden_characters("a\u{feff}\u{202e}\n".as_bytes()), 2);
    }

    #[test]
    fn escapes() {
        assert_eq!(escape("a\tb \u{202e}x\u{1b}[0m\u{9b}é".as_bytes()), "a\tb \\u{202e}x\\x1b[0m\\u{9b}é");
        assert_eq!(escape(b"\xffa\xc3"), "\\xffa\\xc3");
        assert_eq!(escape(b"a\r\n"), "a\\r\\n");
        assert_eq!(escape("\u{feff}\u{7f}".as_bytes()), "\\u{feff}\\x7f");
    }

    proptest! {
        #[test]
        fn nothing_misleading_gets_through(text: Vec<u8>) {
            prop_assert!(!escape(&text).chars().any(is_misleading));
            hidden_characters(&text);
        }
    }
}
