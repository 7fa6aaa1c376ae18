//! Limits of an instance: by what they are enforced, and what its keeper is told of that.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use whatif_cgroup::Group;
use whatif_keeper::protocol::PassedGroup;
use whatif_types::boot::KeeperLimits;
use whatif_types::limits::{Means, Resource};
use whatif_types::{Enforced, Identity, Limits, SandboxId};

use crate::Scope;

/// What is to be limited.
#[derive(Clone, Copy, Debug)]
pub struct Binding<'a> {
    pub id: &'a SandboxId,
    /// The state directory of its sandbox.
    pub state: &'a Path,
    pub limits: &'a Limits,
    pub identity: Identity,
    /// Whether the caller would rather start anew in a scope than have a limit enforced less strictly.
    pub can_move: bool,
}

/// How limits would be enforced.
#[derive(Clone, Debug, Default)]
pub struct Enforcement {
    /// The first that would be enforced less strictly than it could be.
    pub weak: Option<Weak>,
    /// Where what is missing here could be had.
    pub scope: Option<Scope>,
}

/// A limit that something inside can get around, or that holds only after a while.
#[derive(Clone, Debug)]
pub struct Weak {
    pub resource: Resource,
    pub by: Means,
    pub why: String,
    pub fix: Option<String>,
}

/// What enforces the limits of an instance that is about to run. It lasts until `Provider::clear`, whatever becomes of this value.
#[derive(Debug, Default)]
pub struct Bound {
    pub enforced: Vec<Enforced>,
    /// What is left for the keeper to do.
    pub keeper: KeeperLimits,
    pub(crate) group: Option<Group>,
}

impl Bound {
    /// How the keeper is to take the descriptors.
    #[must_use]
    pub fn passed(&self) -> Option<PassedGroup> {
        self.group.as_ref().map(|group| PassedGroup {
            entrances: group.entrances().len(),
            meters: group.meters().iter().map(|(meter, _)| *meter).collect(),
        })
    }

    /// In the order in which the keeper takes them.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.group.iter().flat_map(|g| g.entrances().iter().chain(g.meters().iter().map(|(_, fd)| fd))).map(AsFd::as_fd)
    }
}

/// Something on the machine that limited or held an instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remains {
    /// What the provider calls it, to tell people.
    pub name: String,
    /// Whose it is or was, if it tells.
    pub id: Option<SandboxId>,
}
