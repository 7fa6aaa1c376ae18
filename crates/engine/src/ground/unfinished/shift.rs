//! A move to other layers that was interrupted.

use std::path::Path;

use whatif_layers::shift::Shift;
use whatif_layers::state_dir::SandboxLock;
use whatif_types::sandbox::StopReason;
use whatif_types::{LayerId, Sandbox, SandboxId, Status};

use super::take_back::take_back;
use crate::EngineError;
use crate::ground::Ground;

impl Ground {
    /// Finishes a move that was interrupted, unless somebody is at the sandbox, who does that first.
    pub(crate) fn recover_shift_if_free(&self, note: &Path, sandbox: &SandboxId) -> Result<(), EngineError> {
        let Some(directory) = self.state.find(sandbox)? else { return Ok(Shift::forget_if_gone(&self.state, note)?) };
        match SandboxLock::take(&directory)? {
            Some(lock) => self.recover_shift(note, &lock),
            None => Ok(()),
        }
    }

    /// Finishes a move that was interrupted, in one direction or the other. Nobody else may start or change the sandbox meanwhile.
    pub(crate) fn recover_shift(&self, note: &Path, _lock: &SandboxLock) -> Result<(), EngineError> {
        let Some(shift) = Shift::inherit(&self.state, note)? else { return Ok(()) };
        let id = shift.note().sandbox.clone();
        // Its record is lost. What becomes of its head is decided when it has one again.
        let Some(mut sandbox) = self.store.get(&id)? else { return Ok(()) };
        // Its mounts may be half changed, unless it was only copied. What it wrote since cannot have reached a layer.
        let may_go_on = shift.note().is_copy;
        if let Some(path) = self.state.find(&id)?.filter(|_| !may_go_on) {
            crate::ground::keepers::end_keeper_in(&path, &id);
        }
        let has_happened = match &shift.note().layer {
            Some(layer) => self.is_recorded(&id, &sandbox, layer)?,
            None => true,
        };
        self.expect_no_heads(&mut sandbox, &shift)?;
        if has_happened {
            shift.go_on()?
        } else {
            take_back(shift)?
        }
        if sandbox.status == Status::Active && !may_go_on {
            self.note_end(&mut sandbox, StopReason::Lost)?;
        }
        Ok(())
    }

    /// A move without a layer leaves a bare head, whether it came to its end or not; nothing was in it.
    pub(crate) fn expect_no_heads(&self, sandbox: &mut Sandbox, shift: &Shift) -> Result<(), EngineError> {
        if shift.note().layer.is_none() {
            sandbox.details.position.heads = Some(Vec::new());
            self.store.update(sandbox)?;
        }
        Ok(())
    }

    fn is_recorded(&self, id: &SandboxId, sandbox: &Sandbox, layer: &LayerId) -> Result<bool, EngineError> {
        let in_snapshots = || Ok::<_, EngineError>(self.store.list_snapshots(id)?.iter().any(|s| s.details.stack.contains(layer)));
        Ok(sandbox.details.position.stack.contains(layer) || in_snapshots()?)
    }
}
