//! What keys mean while a question is open.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) enum Answer {
    /// For as long as this sandbox's supervisor lives.
    Once,
    ForProject,
    Always,
    No,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Keys {
    Answer(Answer),
    /// No, and the command gets this key: Ctrl-C or Ctrl-\.
    Interrupt(u8),
    /// Not for us: arrow keys, other letters, something pasted.
    Nothing,
}

const CTRL_C: u8 = 0x03;
const CTRL_BACKSLASH: u8 = 0x1c;

/// What was typed at once. Only a key that is an answer, by itself, is one.
pub(super) fn meaning(typed: &[u8]) -> Keys {
    if let Some(key) = typed.iter().find(|key| matches!(**key, CTRL_C | CTRL_BACKSLASH)) {
        return Keys::Interrupt(*key);
    }
    match typed {
        b"o" | b"O" => Keys::Answer(Answer::Once),
        b"p" | b"P" => Keys::Answer(Answer::ForProject),
        b"a" | b"A" => Keys::Answer(Answer::Always),
        // Enter, Ctrl-D, Escape.
        b"n" | b"N" | b"\r" | b"\n" | b"\x04" | b"\x1b" => Keys::Answer(Answer::No),
        _ => Keys::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_key_by_itself_is_an_answer() {
        assert_eq!(meaning(b"a"), Keys::Answer(Answer::Always));
        assert_eq!(meaning(b"\x1b"), Keys::Answer(Answer::No));
        for other in [&b"aa"[..], b"\x1b[A", b"yes", b"x", b" ", b"sixteen letters and then a"] {
            assert_eq!(meaning(other), Keys::Nothing);
        }
    }

    #[test]
    fn ctrl_c_is_heard_among_other_keys() {
        assert_eq!(meaning(b"\x03"), Keys::Interrupt(3));
        assert_eq!(meaning(b"abc\x1c\x03"), Keys::Interrupt(0x1c));
    }
}
