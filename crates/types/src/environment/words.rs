//! Words to look for in many short texts. Two letters tell of nearly all places that no word begins there.

pub(super) struct Words {
    words: &'static [&'static str],
    /// By the first letter of a word: the second ones, a bit each.
    beginnings: [u128; 128],
}

impl Words {
    /// Of two ASCII letters each at least.
    pub const fn of(words: &'static [&'static str]) -> Self {
        let (mut beginnings, mut at) = ([0; 128], 0);
        while at < words.len() {
            let word = words[at].as_bytes();
            beginnings[word[0] as usize] |= 1 << word[1];
            at += 1;
        }
        Self { words, beginnings }
    }

    /// Those that a text begins with.
    pub fn beginning(&self, text: &[u8]) -> impl Iterator<Item = &'static str> {
        let words = if self.may_begin(text) { self.words } else { &[] };
        words.iter().copied().filter(move |word| text.starts_with(word.as_bytes()))
    }

    pub fn any_begins(&self, text: &[u8]) -> bool {
        self.may_begin(text) && self.beginning(text).next().is_some()
    }

    pub fn any_is_in(&self, text: &[u8]) -> bool {
        (0..text.len()).any(|at| self.any_begins(&text[at..]))
    }

    fn may_begin(&self, text: &[u8]) -> bool {
        match text {
            [first, second, ..] if first.is_ascii() && second.is_ascii() => self.beginnings[usize::from(*first)] >> second & 1 == 1,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static WORDS: Words = Words::of(&["KEY", "_PAT", "eyJ"]);

    #[test]
    fn words_are_found_where_they_are() {
        assert!(WORDS.any_begins(b"KEYS") && WORDS.any_begins(b"eyJ") && !WORDS.any_begins(b"MY_KEY"));
        assert!(WORDS.any_is_in(b"MY_KEY") && WORDS.any_is_in(b"A_PAT") && WORDS.any_is_in("\u{e9}KEY".as_bytes()));
        for none in ["", "K", "KE", "KE_Y", "_PA", "\u{e9}\u{e9}"] {
            assert!(!WORDS.any_is_in(none.as_bytes()), "{none}");
        }
        assert_eq!(WORDS.beginning(b"_PATH").collect::<Vec<_>>(), ["_PAT"]);
    }
}
