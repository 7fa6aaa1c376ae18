//! What `gc` removes.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::Size;
use crate::Span;

/// By default nothing goes that nobody has decided about. A running sandbox never goes, nor one with the label `keep`.
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
}

impl Default for GcRules {
    fn default() -> Self {
        Self { max_age: None, max_total: None, remove: vec![Ending::Approved, Ending::Rejected], keep: Span::from_secs(7 * 86_400) }
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
