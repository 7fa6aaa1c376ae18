use std::ffi::OsStr;
use std::path::Path;

use serde::Serialize;

use crate::text::Text;

/// What a call or a choice is about.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    Given(Text),
    /// To be filled in by the caller.
    Blank,
    /// Left out: it is clear which, or only the call or the choice itself is spoken about.
    Unsaid,
}

impl Value {
    /// Left out if there is none.
    #[must_use]
    pub fn or_unsaid(value: Option<&str>) -> Self {
        value.map_or(Self::Unsaid, Self::from)
    }
}

impl From<&str> for Value {
    fn from(value: &str) -> Self {
        Self::Given(Text::from(OsStr::new(value)))
    }
}

impl From<&String> for Value {
    fn from(value: &String) -> Self {
        value.as_str().into()
    }
}

impl From<String> for Value {
    fn from(value: String) -> Self {
        value.as_str().into()
    }
}

impl From<&Path> for Value {
    fn from(value: &Path) -> Self {
        Self::Given(Text::from(value))
    }
}
