//! What a sandbox has in the place of a secret.

use std::io;

use whatif_sys::random;

const PREFIX: &str = "whatif-placeholder-";
/// Nobody guesses these, so nobody can have a secret put where only its placeholder's owner would.
const RANDOM_BYTES: usize = 16;
/// Short ones could turn up by chance.
const SHORTEST: usize = 16;
const LONGEST: usize = 256;

/// A new one. It looks like a token to programs that check the form of one, and says what it is to people.
///
/// # Errors
/// If the system has no random bytes.
pub fn placeholder() -> io::Result<String> {
    Ok(format!("{PREFIX}{}", random::word::<RANDOM_BYTES>()?))
}

/// Only what base64, URLs, shells and header fields leave as it is.
pub(crate) fn is_sound(text: &str) -> bool {
    (SHORTEST..=LONGEST).contains(&text.len())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_placeholder_is_new_sound_and_says_what_it_is() {
        let (one, other) = (placeholder().unwrap(), placeholder().unwrap());
        assert_ne!(one, other);
        for text in [one, other] {
            let hex = text.strip_prefix("whatif-placeholder-").unwrap();
            assert!(hex.len() == 32 && hex.bytes().all(|byte| byte.is_ascii_hexdigit()), "{text}");
            assert!(is_sound(&text));
        }
    }

    #[test]
    fn what_could_turn_up_by_chance_or_break_a_field_is_no_placeholder() {
        for text in ["", "short", "fifteen-letters", "with a space in it", "with\r\na-line-break", "with:colon-somewhere"] {
            assert!(!is_sound(text), "{text:?}");
        }
        assert!(!is_sound(&"a".repeat(LONGEST + 1)));
    }
}
