//! Work that nobody has to wait for. The engine says when it is due; how it is done beside everything else (by a process of its own,
//! a thread, later) is the client's business.

use std::fmt;

use whatif_types::{Sandbox, SandboxId};

use crate::ground::Ground;

/// Something that is due.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Chore {
    /// Many layers make a sandbox slow; merging them can wait until nobody does.
    Squash(String),
    /// Layers that nobody needs any more.
    RemoveLayers,
    /// One that was taken from the pool is to be made up for.
    FillPool,
    /// Nobody stays who could be told when processes of this sandbox want the network.
    Attend(SandboxId),
    /// Sandboxes that the rules do not keep.
    Collect,
    /// What the records want done now and then.
    Tidy,
}

/// Who sees to it that chores are done.
pub trait Chores: fmt::Debug + Send + Sync {
    /// Must not wait for it, and must not fail: what is not done now is due again.
    fn start(&self, chore: Chore);
}

impl Ground {
    pub(crate) fn squash_if_due(&self, sandbox: &Sandbox) {
        if self.wants_squashing(sandbox).unwrap_or(false) {
            self.chores.start(Chore::Squash(sandbox.name.clone()));
        }
    }

    /// Of processes that go on without a client.
    pub(crate) fn attend_if_due(&self, sandbox: &Sandbox) {
        if sandbox.details.is_supervised() {
            self.chores.start(Chore::Attend(sandbox.id.clone()));
        }
    }

    pub(crate) fn layers_are_left(&self) {
        self.chores.start(Chore::RemoveLayers);
    }
}
