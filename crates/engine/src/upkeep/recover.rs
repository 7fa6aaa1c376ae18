//! Repairs what a crash left. Runs at the start of every command; with nothing to repair it costs one look at an empty directory.

use std::path::Path;

use whatif_layers::remove;
use whatif_layers::state_dir::{SandboxLock, Unsettled, is_empty};
use whatif_types::explain::whole_message;
use whatif_types::sandbox::StopReason;
use whatif_types::{EventKind, SandboxId, Status};

use crate::ground::ended::mark_stopped;
use crate::ground::keepers::end_keeper_in;
use crate::ground::written_down::noted;
use crate::upkeep::Upkeep;
use crate::{EngineError, Trouble};

impl Upkeep {
    /// Repairs what a crash left, and tells what there is to tell about it. Whoever opens the state does that, before anything else.
    pub fn recover(&self) -> Result<&[Trouble], EngineError> {
        let found = self.recover_all()?;
        Ok(self.ground.troubles.get_or_init(|| found))
    }

    fn recover_all(&self) -> Result<Vec<Trouble>, EngineError> {
        let mut troubles = Vec::new();
        for unsettled in self.ground.state.unsettled()? {
            // What cannot be repaired now must not keep the command from its own work; the next one tries again, and `gc` tells.
            match unsettled {
                Unsettled::Sandbox(id) => {
                    // Held: its owner is alive and at work on it.
                    let Some(lock) = self.ground.state.inherit(&id)? else { continue };
                    let _ = self.repair(&id, lock);
                }
                Unsettled::Apply(directory) => troubles.extend(self.changes.recover_apply(&directory)),
                Unsettled::Shift { note, sandbox } => {
                    if let Err(error) = self.ground.recover_shift_if_free(&note, &sandbox) {
                        troubles
                            .push(Trouble::note(format!("an interrupted snapshot cannot be finished: {}", whole_message(&error))));
                    }
                }
                Unsettled::Layers(directory) => {
                    if let Ok(Some(_lock)) = SandboxLock::take(&directory) {
                        let _ = remove::tree(&directory);
                    }
                }
            }
        }
        Ok(troubles)
    }

    fn repair(&self, id: &SandboxId, _lock: SandboxLock) -> Result<(), EngineError> {
        let path = self.ground.state.transient().join(id.as_str());
        let recorded = match self.ground.store.get(id)? {
            None if self.ground.state.was_being_made(id) && !self.ground.state.is_filled(id)? && holds_work(&path) => {
                match noted(&path)?.filter(|noted| noted.id == *id) {
                    // A run that had not lasted long enough for the records to learn of it.
                    Some(noted) => Some(self.lifecycle.recorded(&noted)?),
                    // Commands run only once its record is somewhere, so this one was lost. `gc` names the sandbox.
                    None => {
                        self.ground.state.settle(id)?;
                        return Ok(());
                    }
                }
            }
            recorded => recorded,
        };
        match recorded {
            // Half made, or half deleted.
            None => self.clear_away(id),
            // Its row says it is kept; only the move was missing. (An interrupted `rm` ends up here too: it did not happen.)
            Some(sandbox) if !sandbox.details.transient => {
                self.ground.state.settle(&sandbox.id)?;
                Ok(())
            }
            // Made for checks, or by a race that was killed: it begins anew.
            Some(sandbox) if sandbox.details.disposable => self.clear_away(id),
            // A `run` that was killed: decide in its place.
            Some(mut sandbox) => {
                end_keeper_in(&path, id);
                self.ground.unbind_in(&sandbox, &path);
                // Its command may have begun before the record says so. A head that was only copied is nobody's work.
                if sandbox.status == Status::Creating && !holds_work(&path) {
                    return self.clear_away(id);
                }
                let summary = self.ground.summarize(&sandbox)?;
                if !summary.matters {
                    return self.clear_away(id);
                }
                mark_stopped(&mut sandbox, StopReason::Lost);
                sandbox.details.transient = false;
                sandbox.details.changed_files = summary.changed_files;
                sandbox.details.size_bytes = summary.size_bytes;
                self.ground.store.update(&mut sandbox)?;
                self.ground.state.settle(&sandbox.id)?;
                let facts = vec![("changed_files", summary.changed_files.into())];
                self.ground.tell(EventKind::SandboxCreated, &sandbox, facts);
                self.ground.tell_end(&sandbox);
                Ok(())
            }
        }
    }

    fn clear_away(&self, id: &SandboxId) -> Result<(), EngineError> {
        let path = self.ground.state.transient().join(id.as_str());
        end_keeper_in(&path, id);
        self.ground.unbind_lost(id);
        self.ground.release_any_room(&path);
        // First: without a record and half deleted, it would pass for one whose record was lost.
        self.ground.state.disown(id);
        self.ground.store.delete(id)?;
        self.ground.store.flush()?;
        Ok(remove::tree(&path)?)
    }
}

/// Whether anything was written in a sandbox: to a head that was copied, since; or there is something in one that was mounted, which
/// its work directory shows. What cannot be looked at may be some.
fn holds_work(sandbox: &Path) -> bool {
    let work = sandbox.join("work");
    let is_written = |root: std::fs::DirEntry| match whatif_layers::copy::is_written(&root.path()) {
        Ok(Some(is_written)) => is_written,
        Ok(None) => !is_empty(&root.path()) && !is_empty(&work.join(root.file_name())),
        Err(_) => true,
    };
    match std::fs::read_dir(sandbox.join("head")) {
        Ok(mut roots) => roots.any(|root| root.map_or(true, is_written)),
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    }
}
