//! Work that nobody has to wait for. The engine says when it is due; how it is done beside everything else (by a process of its own,
//! a thread, later) is the client's business.

use std::fmt;

use whatif_types::{Sandbox, SandboxId};

use crate::stack::Unknown;
use crate::{Engine, EngineError};

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
    /// What the records want done now and then.
    Tidy,
}

/// Who sees to it that chores are done.
pub trait Chores: fmt::Debug + Send + Sync {
    /// Must not wait for it, and must not fail: what is not done now is due again.
    fn start(&self, chore: Chore);
}

impl Engine {
    /// Does one, now.
    pub fn do_chore(&self, chore: &Chore) -> Result<(), EngineError> {
        match chore {
            Chore::Squash(name) => self.squash_due(name).map(drop)?,
            Chore::RemoveLayers => {
                self.remove_unneeded_layers(Unknown::Keep)?;
                self.clear_race_locks();
            }
            Chore::FillPool => self.fill_pool()?,
            Chore::Attend(sandbox) => self.supervise_when_wanted(sandbox)?,
            Chore::Tidy => self.store.tidy()?,
        }
        Ok(())
    }

    /// At the end of a call, or when a client leaves.
    pub fn tidy_if_due(&self) {
        if self.store.wants_tidying() {
            self.chores.start(Chore::Tidy);
        }
    }

    pub(crate) fn squash_if_due(&self, sandbox: &Sandbox) {
        if self.wants_squashing(sandbox).unwrap_or(false) {
            self.chores.start(Chore::Squash(sandbox.name.clone()));
        }
    }

    pub(crate) fn fill_pool_if_due(&self, sandbox: &Sandbox) {
        if self.wants_filling(&sandbox.project) {
            self.chores.start(Chore::FillPool);
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
