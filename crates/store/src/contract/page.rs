//! A part of a long list, and where the next one begins.

use std::fmt;
use std::str::FromStr;

use crate::StoreError;

#[derive(Clone, Debug)]
pub struct Page<T> {
    pub rows: Vec<T>,
    /// None at the end.
    pub next: Option<Cursor>,
}

/// The last row of a page: when it was made, and its id, which tells those apart that were made in the same moment. Rows that come or
/// go meanwhile neither hide nor repeat others. For callers it is a word without a meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cursor {
    pub(crate) created_at: u64,
    pub(crate) id: String,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.created_at, self.id)
    }
}

impl FromStr for Cursor {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self, StoreError> {
        let parts = text.split_once('-').and_then(|(at, id)| Some(Self { created_at: at.parse().ok()?, id: id.to_owned() }));
        parts.ok_or_else(|| StoreError::NoSuchCursor { text: text.escape_debug().to_string() })
    }
}
