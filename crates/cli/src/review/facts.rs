//! What the review needs to know about each change at once, without reading anything.

use std::rc::Rc;

use whatif_engine::{Change, ChangeKind};

/// Where a change stands in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Group {
    /// Flagged so that each takes an approval of its own.
    Risky,
    Ordinary,
    /// Build output and the like.
    Ignored,
    Outside,
}

impl Group {
    pub const ALL: [Self; 4] = [Self::Risky, Self::Ordinary, Self::Ignored, Self::Outside];

    #[must_use]
    pub fn title(self) -> &'static str {
        match self {
            Self::Risky => "needs your approval",
            Self::Ordinary => "changes",
            Self::Ignored => "ignored",
            Self::Outside => "outside the project",
        }
    }
}

#[derive(Clone, Debug)]
pub struct Facts {
    pub group: Group,
    pub is_directory: bool,
    pub is_blocked: bool,
    /// A directory that comes or goes with what is in it.
    pub is_implied: bool,
    /// Size of what is there now.
    pub bytes: u64,
    /// The packages that it belongs to, in words.
    pub packages: Option<Rc<str>>,
}

impl Facts {
    #[must_use]
    pub fn of(change: &Change) -> Self {
        // What is flagged comes first wherever it lies: nothing may hide among a thousand ignored files.
        let group = match change {
            c if c.needs_approval() => Group::Risky,
            c if c.outside => Group::Outside,
            c if c.ignored => Group::Ignored,
            _ => Group::Ordinary,
        };
        Self {
            group,
            is_directory: change.is_directory(),
            is_blocked: change.blocked.is_some(),
            is_implied: false,
            bytes: change.after.as_ref().filter(|_| !change.is_directory()).map_or(0, |a| a.node.size),
            packages: None,
        }
    }

    /// Whether it can be decided about.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !self.is_blocked && !self.is_implied
    }
}

/// Whether a change of this kind to a directory can be a mere consequence of others.
#[must_use]
pub fn comes_or_goes(kind: ChangeKind) -> bool {
    matches!(kind, ChangeKind::Add | ChangeKind::Delete)
}
