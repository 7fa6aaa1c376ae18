//! What `gc` removes.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Size;
use crate::Span;

/// By default nothing goes that holds changes nobody has decided about. A running sandbox never goes, nor one with the label `keep`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct GcRules {
    /// A sandbox goes that was not used for so long, whatever it holds.
    pub max_age: Option<Span>,
    /// While everything together takes more, the least recently used one goes, whatever it holds.
    pub max_total: Option<Size>,
    /// A sandbox goes that ended so, unless it has snapshots that somebody asked for.
    pub remove: Vec<Ending>,
    /// How long after its last use.
    pub keep: Span,
    /// A stopped sandbox goes that holds no changes and no snapshots that somebody asked for, and was not used for so long.
    pub unused: Unused,
    /// Whether commands start this in the background, at most once an hour.
    pub auto: bool,
}

/// A time, or `never`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Written", into = "String")]
pub struct Unused(pub Option<Span>);

#[derive(Deserialize)]
#[serde(untagged, expecting = "a time is written as 14d or 12h; or never")]
enum Written {
    Never(Never),
    After(Span),
}

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Never {
    Never,
}

impl From<Written> for Unused {
    fn from(written: Written) -> Self {
        match written {
            Written::Never(Never::Never) => Self(None),
            Written::After(span) => Self(Some(span)),
        }
    }
}

impl From<Unused> for String {
    fn from(unused: Unused) -> Self {
        unused.0.map_or_else(|| "never".to_owned(), |span| span.to_string())
    }
}

impl Default for GcRules {
    fn default() -> Self {
        const DAY: u64 = 86_400;
        Self {
            max_age: None,
            max_total: None,
            remove: vec![Ending::Approved, Ending::Rejected],
            keep: Span::from_secs(7 * DAY),
            unused: Unused(Some(Span::from_secs(14 * DAY))),
            auto: true,
        }
    }
}

/// How a sandbox can be done with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Ending {
    /// All of it is real.
    Approved,
    Rejected,
    /// Its time was up. What it holds may not have been looked at.
    Expired,
}

impl fmt::Display for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Approved => "approved",
            Self::Rejected => "rejected",
            Self::Expired => "expired",
        })
    }
}
