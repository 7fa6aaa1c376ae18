//! Why a change does not become real.

use serde::Serialize;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    /// A pipe, socket or device.
    Special,
    /// Reality has something here that was hidden from the sandbox.
    Masked,
    DeniedByPolicy,
    /// Needs its own approval.
    Risky,
    /// Belongs to a dependency tree, which is taken as a whole, and something in that needs its own approval.
    DependencyTree,
    /// Belongs to a package, which is taken as a whole, and something in that needs its own approval.
    Package,
    Outside,
    Ignored,
    Excluded,
    /// In a review.
    Rejected,
    /// In a review that did not get to it.
    Undecided,
    /// Approved in a review, and changed since.
    Lapsed,
    /// Not asked for.
    NotChosen,
    /// Not asked for either, of a rename whose other half is taken.
    OtherHalf,
    Skipped,
    /// In a conflict, on request.
    KeptReality,
    /// In a conflict of an earlier apply, on request. The sandbox has not changed it since.
    SettledBefore,
    /// A directory that still has something in it.
    NotEmpty,
    /// Taken away here by the sandbox, which has it only at a path that is left out.
    Moved,
    /// An object of git's that reality may need.
    GitObject,
    /// A lock of git's.
    GitLock,
}

impl Reason {
    /// Reality's version stays, and nothing is left of the change.
    pub(crate) fn is_settled(self) -> bool {
        matches!(self, Self::KeptReality | Self::GitObject)
    }
}
