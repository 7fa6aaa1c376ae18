//! Lets a running sandbox see what became of the directories that it renamed.
//!
//! The kernel remembers the directories that a mount has looked up, so its layers are mounted anew and everything is looked up
//! again. Other sandboxes are left alone: the next command in one in which nothing runs makes its view fresh (`lifecycle/view.rs`).

use whatif_apply::Plan;
use whatif_layers::state_dir::SandboxLock;
use whatif_provider::Finishing;
use whatif_types::explain::whole_message;
use whatif_types::{LayerId, Sandbox, Status};

use super::About;
use crate::changes::Changes;
use crate::lifecycle::LifecycleError;
use crate::lifecycle::shift::{Destination, Live};
use crate::{EngineError, now};

impl Changes {
    /// After a transaction, for the sandbox it was about, whose lock the caller has taken. `is_outdated`: its mounts show what is gone.
    pub(crate) fn look_anew(
        &self,
        mut sandbox: Sandbox,
        lock: &SandboxLock,
        plan: &Plan,
        is_outdated: bool,
    ) -> Result<(), EngineError> {
        match has_marks(plan) {
            true => self.look_without_marks(sandbox, lock),
            false if is_outdated && sandbox.status == Status::Active => self.mount_anew(&mut sandbox, lock),
            false => Ok(()),
        }
    }

    /// In layers marks are changed by changing the layers, so they may be mounted meanwhile.
    fn look_without_marks(&self, mut sandbox: Sandbox, lock: &SandboxLock) -> Result<(), EngineError> {
        if sandbox.status != Status::Active {
            return self.lifecycle.drop_marks(&mut sandbox);
        }
        self.mount_anew(&mut sandbox, lock)?;
        self.lifecycle.drop_marks(&mut sandbox)?;
        self.mount_anew(&mut sandbox, lock)
    }

    /// What was the head is a layer afterwards.
    pub(super) fn mount_anew(&self, sandbox: &mut Sandbox, lock: &SandboxLock) -> Result<(), EngineError> {
        self.ground.make_room_on_stack(sandbox)?;
        self.ground.keep_bases_locked(sandbox)?;
        let moved = self.lifecycle.shift(sandbox, lock, Live::Refuse, None, &mut Here { changes: self })?;
        Ok(moved.finishing.map_or(Ok(()), Finishing::wait)?)
    }
}

/// Whether a sandbox has to be mounted anew to see what became of its renamed directories.
pub(crate) fn is_due(plan: &Plan, is_outdated: bool) -> bool {
    is_outdated || has_marks(plan)
}

/// Nothing but an apply or an undo of renamed directories changes marks.
fn has_marks(plan: &Plan) -> bool {
    serde_json::from_value::<About>(plan.about.clone()).is_ok_and(|about| !about.marks.is_empty())
}

/// What whoever works in the sandbox has to know if it could not be mounted anew.
pub(crate) fn unseen(looked: Result<(), EngineError>) -> Option<String> {
    let sees = "sees directories that it renamed as empty until it is restarted";
    match looked {
        Ok(()) => None,
        Err(EngineError::Lifecycle(LifecycleError::InUse { name, .. })) => Some(format!("something runs in {name}, which {sees}")),
        Err(error) => Some(format!("the sandbox {sees}: {}", whole_message(&error))),
    }
}

/// Where the sandbox is already.
struct Here<'a> {
    changes: &'a Changes,
}

impl Destination for Here<'_> {
    fn stack(&self, sandbox: &Sandbox, layer: Option<&LayerId>) -> Vec<LayerId> {
        sandbox.details.position.stack.iter().chain(layer).cloned().collect()
    }

    fn record(&mut self, sandbox: &mut Sandbox, _layer: Option<&LayerId>) -> Result<(), EngineError> {
        sandbox.updated_at = now();
        Ok(self.changes.ground.store.update(sandbox)?)
    }

    fn leaves_its_stack(&self) -> bool {
        true
    }
}
