//! A secret the supervisor knows.

use std::fmt;

use zeroize::Zeroizing;

use crate::fields;

/// Longer ones do not fit in the head of a request that servers accept.
pub(crate) const LONGEST_VALUE: usize = 8 * 1024;

/// What goes in for what. Its memory is cleared when it is dropped.
pub(crate) struct Known {
    pub(crate) name: String,
    pub(crate) placeholder: Vec<u8>,
    pub(crate) value: Zeroizing<Vec<u8>>,
    /// Fields it is sent in besides those that carry credentials, in lower case.
    pub(crate) fields: Vec<String>,
}

impl Known {
    pub(crate) fn belongs_in(&self, field: &[u8]) -> bool {
        fields::carries_credentials(field) || self.fields.iter().any(|own| field.eq_ignore_ascii_case(own.as_bytes()))
    }
}

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Known").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Why a value cannot be sent in a field. Says nothing of the value itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ValueError {
    #[error("it is empty")]
    Empty,
    #[error("it is longer than {LONGEST_VALUE} bytes")]
    TooLong,
    #[error("it is not text in UTF-8")]
    NotText,
    #[error("it has a line break inside; a secret is one line, and only the last line break of a file is left out")]
    LineBreak,
    #[error("it has a control character")]
    Control,
    #[error("it begins or ends with white space, which no server would see")]
    WhiteSpace,
}

/// Whether a value can stand in a field without becoming anything else, such as a second field.
pub(crate) fn check(value: &str) -> Result<(), ValueError> {
    if value.is_empty() {
        return Err(ValueError::Empty);
    }
    if value.len() > LONGEST_VALUE {
        return Err(ValueError::TooLong);
    }
    if value.contains(['\r', '\n']) {
        return Err(ValueError::LineBreak);
    }
    if value.starts_with([' ', '\t']) || value.ends_with([' ', '\t']) {
        return Err(ValueError::WhiteSpace);
    }
    // Tabs are allowed in a field, but no credential has one.
    if value.chars().any(char::is_control) { Err(ValueError::Control) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_become_another_field_is_refused() {
        for (value, expected) in [
            ("", ValueError::Empty),
            ("a\r\nX-Admin: yes", ValueError::LineBreak),
            ("a\nb", ValueError::LineBreak),
            ("a\r", ValueError::LineBreak),
            ("a\0b", ValueError::Control),
            ("a\tb", ValueError::Control),
            ("a\x7f", ValueError::Control),
            ("a\u{85}b", ValueError::Control),
            (" a", ValueError::WhiteSpace),
            ("a ", ValueError::WhiteSpace),
        ] {
            assert_eq!(check(value), Err(expected), "{value:?}");
        }
        assert_eq!(check(&"a".repeat(LONGEST_VALUE + 1)), Err(ValueError::TooLong));
        for value in ["a", "two words", "p\u{e4}ssword", "a:b\"c'd\\e"] {
            assert_eq!(check(value), Ok(()), "{value:?}");
        }
    }

    #[test]
    fn a_secret_is_not_printed() {
        let known = Known {
            name: "TOKEN".to_owned(),
            placeholder: b"p".to_vec(),
            value: Zeroizing::new(b"hunter2".to_vec()),
            fields: Vec::new(),
        };
        assert!(!format!("{known:?}").contains("hunter2"));
    }
}
