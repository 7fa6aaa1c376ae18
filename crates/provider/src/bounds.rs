//! Limits of an instance: by what they are enforced, and what its keeper is told of that.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use whatif_cgroup::Group;
use whatif_keeper::protocol::PassedGroup;
use whatif_types::boot::KeeperLimits;
use whatif_types::limits::{DefaultLimits, Means, Resource};
use whatif_types::{Enforced, Handle, Identity, Limits, SandboxId, Size};

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
    /// Whether it gets the default limits where nothing else was asked for.
    pub guards: bool,
    /// Memory that these leave to the host, if that was said.
    pub keep_memory: Option<Size>,
    /// Of the launched instance.
    pub keeper: Handle,
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
    /// The limits that nobody asked for.
    pub defaults: Option<DefaultLimits>,
    /// Of this instance alone.
    pub(crate) group: Option<Group>,
    /// Otherwise the one that its commands share with those of others.
    pub(crate) shared: Option<Group>,
}

impl Bound {
    /// How the keeper is to take the descriptors.
    #[must_use]
    pub fn passed(&self) -> Option<PassedGroup> {
        self.entered().map(|group| PassedGroup {
            entrances: group.entrances().len(),
            meters: group.meters().iter().map(|(meter, _)| *meter).collect(),
            shared: self.group.is_none(),
        })
    }

    /// Where its commands go.
    fn entered(&self) -> Option<&Group> {
        self.group.as_ref().or(self.shared.as_ref())
    }

    /// In the order in which the keeper takes them.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.entered().into_iter().flat_map(|g| g.entrances().iter().chain(g.meters().iter().map(|(_, fd)| fd))).map(AsFd::as_fd)
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
