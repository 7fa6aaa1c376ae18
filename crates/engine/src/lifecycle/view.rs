//! The view that a sandbox has of reality: since when it is fresh, and how it gets fresh again.
//!
//! The kernel remembers what it looked up for an overlay, so a file that reality replaced or deleted may still be seen as it was.
//! Before each command it is told to forget that, which takes some microseconds (`sys/overlay.rs`); whoever serves an overlay from
//! user space is told by the kernel, and forgets it, too. A process that is alive holds on to what it has open and to where it
//! stands, so only a view that nobody uses meanwhile counts as fresh afterwards. A mount holds on to the directory that it was made
//! of: where reality has put another in its place, the sandbox has to be mounted again. So it has where something that it deleted
//! would be seen again (`ground/unmarked.rs`).

use std::io;
use std::iter;
use std::path::{Path, PathBuf};

use whatif_apply::Plan;
use whatif_keeper::Client;
use whatif_keeper::protocol::Exited;
use whatif_sys::overlay::Overlay;
use whatif_types::boot::PROTOCOL_VERSION;
use whatif_types::{Backend, Sandbox, Status};

use crate::ground::viewed::{Turn, viewed_now};
use crate::ground::{GroundError, unmarked};
use crate::lifecycle::shift::Live;
use crate::lifecycle::{Lifecycle, LifecycleError};
use crate::{EngineError, roots};

/// What became of a view that was to be made fresh.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Freshened {
    /// What is in use stays as it was.
    AsFarAsPossible,
    /// Nothing is in use, but what is mounted cannot show what it should.
    NeedsOtherMounts(Why),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// Reality has another directory where a tree is mounted, or a mark is missing.
    Outdated,
    /// An overlay cannot be told to look again.
    Stuck,
}

impl Lifecycle {
    /// Before reality changes: what living sandboxes have touched so far, they started from as it is. Later nobody could tell.
    pub(crate) fn keep_bases_of_others(&self, plan: &Plan) {
        let Ok(all) = self.ground.store.list() else { return };
        let is_meant = |s: &&Sandbox| {
            let overlaps = |tree: &PathBuf| plan.roots.iter().any(|root| root.starts_with(tree) || tree.starts_with(root));
            s.status == Status::Active && s.details.trees.iter().any(overlaps)
        };
        for sandbox in all.iter().filter(is_meant) {
            // What cannot be kept is unknown afterwards, and treated so.
            let _ = self.ground.keep_bases(sandbox);
        }
    }

    /// Before a command: lets a sandbox see reality as it is now.
    pub(crate) fn freshen(&self, sandbox: &Sandbox, client: &mut Client) -> Result<Freshened, EngineError> {
        if !knows_its_overlays(sandbox) {
            return Ok(Freshened::AsFarAsPossible);
        }
        let directory = self.ground.directory(sandbox)?;
        // If nothing runs, nothing starts until everything was forgotten; what starts then looks it up again.
        let (overlays, is_held) = client.overlays()?;
        let fresh = viewed_now(&sandbox.project, iter::empty());
        let is_outdated = is_held && sandbox.details.backend != Backend::Copy && is_outdated(sandbox, &directory);
        let turn = Turn::wait(&directory);
        let forgotten = match &turn {
            Ok(_) => forget_all(&overlays),
            // Whoever has it is at the same.
            Err(_) => Ok(()),
        };
        if is_held {
            client.thaw_ahead()?;
        }
        let turn = turn?;
        match forgotten {
            Err(_) if is_held => return Ok(Freshened::NeedsOtherMounts(Why::Stuck)),
            forgotten => forgotten.map_err(|e| EngineError::io("look up reality again for", &directory, e))?,
        }
        if is_outdated {
            return Ok(Freshened::NeedsOtherMounts(Why::Outdated));
        }
        // A copy stays what it is; and fuse-overlayfs has looked again at most, but not at the names in the root of a tree.
        if is_held && sandbox.details.backend == Backend::Overlay {
            turn.note(&fresh)?;
        }
        Ok(Freshened::AsFarAsPossible)
    }

    /// Lets go of what a sandbox has mounted, if nothing runs in it. The next command mounts what reality has by then.
    pub(crate) fn unmount_if_idle(&self, sandbox: &Sandbox, why: Why) -> Result<(), EngineError> {
        let _lock = self.ground.lock(sandbox)?;
        let mut sandbox = self.ground.refresh(sandbox)?;
        let is_needed = || Ok::<_, EngineError>(why == Why::Stuck || is_outdated(&sandbox, &self.ground.directory(&sandbox)?));
        if sandbox.status == Status::Active && is_needed()? {
            self.rest_if_idle(&mut sandbox, Live::Refuse)?;
        }
        Ok(())
    }

    /// After a command.
    pub fn settle_command(&self, sandbox: &Sandbox, exited: &Exited) -> Result<(), EngineError> {
        let kept = self.ground.keep_bases(sandbox);
        if exited.others_alive {
            self.ground.attend_if_due(sandbox);
            self.ground.prepare_pause(sandbox);
        }
        match kept {
            // Of a sandbox that another command removes, nothing is missed.
            Err(error @ EngineError::Ground(GroundError::Incomplete { .. })) if self.is_wanted(sandbox)? => {
                Err(LifecycleError::WorkGone { name: sandbox.name.clone(), code: exited.code, source: Box::new(error) }.into())
            }
            // Without bases only a later merge is poorer.
            _ => Ok(()),
        }
    }

    fn is_wanted(&self, sandbox: &Sandbox) -> Result<bool, EngineError> {
        Ok(self.ground.store.get(&sandbox.id)?.is_some() && !self.ground.state.is_being_deleted(&sandbox.id))
    }
}

/// A keeper of an earlier version does not have what a fresh view needs.
pub(super) fn knows_its_overlays(sandbox: &Sandbox) -> bool {
    sandbox.details.keeper_version == PROTOCOL_VERSION
}

/// One that cannot be told to keeps none of the others from it.
fn forget_all(overlays: &[Overlay]) -> io::Result<()> {
    overlays.iter().map(Overlay::forget).fold(Ok(()), Result::and)
}

/// Whether what is mounted cannot show what it should, however often it is looked up.
fn is_outdated(sandbox: &Sandbox, directory: &Path) -> bool {
    roots::any_replaced(sandbox) || unmarked::is_noted(directory)
}
