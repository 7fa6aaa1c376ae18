//! The life cycle of a sandbox, as one table.
//!
//! ```text
//! creating ──► active ◄──► stopped ──► approved | rejected
//!     │          │            │              │
//!     └──────────┴────────────┴──► error ────┴──► deleted
//! ```
//!
//! Every transition into the state a sandbox is already in succeeds and changes nothing, so a repeated request is harmless.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// The row is reserved; layers and keeper are being made.
    Creating,
    /// A keeper is alive.
    Active,
    /// No keeper; the head is intact and can be started again.
    Stopped,
    Approved,
    Rejected,
    /// Creation failed half-way or something could not be repaired.
    Error,
    Deleted,
}

const ALL: [Status; 7] =
    [Status::Creating, Status::Active, Status::Stopped, Status::Approved, Status::Rejected, Status::Error, Status::Deleted];

impl Status {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Creating => "creating",
            Self::Active => "active",
            Self::Stopped => "stopped",
            Self::Approved => "approved",
            Self::Rejected => "rejected",
            Self::Error => "error",
            Self::Deleted => "deleted",
        }
    }

    /// The one table of legal moves.
    #[must_use]
    pub fn next(self) -> &'static [Status] {
        match self {
            Self::Creating => &[Self::Active, Self::Stopped, Self::Error, Self::Deleted],
            Self::Active => &[Self::Stopped, Self::Approved, Self::Rejected, Self::Error, Self::Deleted],
            Self::Stopped => &[Self::Active, Self::Approved, Self::Rejected, Self::Error, Self::Deleted],
            Self::Approved => &[Self::Active, Self::Stopped, Self::Deleted],
            Self::Rejected => &[Self::Active, Self::Stopped, Self::Approved, Self::Deleted],
            Self::Error => &[Self::Stopped, Self::Deleted],
            Self::Deleted => &[],
        }
    }

    /// The states from which this one can be reached, itself included.
    pub fn before(self) -> impl Iterator<Item = Status> {
        ALL.into_iter().filter(move |from| from.check_move_to(self).is_ok())
    }

    /// Checks a move; moving to the present state is always allowed.
    pub fn check_move_to(self, to: Status) -> Result<(), IllegalTransition> {
        if self == to || self.next().contains(&to) { Ok(()) } else { Err(IllegalTransition { from: self, to }) }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Status {
    type Err = UnknownStatus;

    fn from_str(text: &str) -> Result<Self, UnknownStatus> {
        ALL.into_iter().find(|s| s.as_str() == text).ok_or_else(|| UnknownStatus { text: text.to_owned() })
    }
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("a sandbox that is {from} cannot become {to}")]
pub struct IllegalTransition {
    pub from: Status,
    pub to: Status,
}

#[derive(Debug, thiserror::Error)]
#[error("'{text}' is not a sandbox status")]
pub struct UnknownStatus {
    text: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_move_is_idempotent_and_deleted_is_final() {
        for status in ALL {
            assert!(status.check_move_to(status).is_ok());
            if status != Status::Deleted {
                assert!(status.check_move_to(Status::Deleted).is_ok(), "{status} can always be removed");
                assert!(Status::Deleted.check_move_to(status).is_err());
            }
        }
    }

    #[test]
    fn nothing_returns_to_creating() {
        for status in ALL.into_iter().filter(|s| *s != Status::Creating) {
            assert!(status.check_move_to(Status::Creating).is_err());
        }
    }

    #[test]
    fn text_round_trips() {
        for status in ALL {
            assert_eq!(status.as_str().parse::<Status>().unwrap(), status);
        }
        assert!("nonsense".parse::<Status>().is_err());
    }
}
