//! Repairs what a crash left. Runs at the start of every command; with nothing to repair it costs one look at an empty directory.

use std::path::Path;
use std::time::Duration;

use whatif_apply::Recovered;
use whatif_keeper::Client;
use whatif_layers::remove;
use whatif_layers::state_dir::{SandboxLock, Unsettled};
use whatif_types::sandbox::StopReason;
use whatif_types::{Sandbox, SandboxId, Status};

use crate::{Engine, EngineError, now};

impl Engine {
    pub(crate) fn recover(&self) -> Result<(), EngineError> {
        for unsettled in self.state.unsettled()? {
            // What cannot be repaired now must not keep the command from its own work; the next one tries again, and `gc` tells.
            match unsettled {
                Unsettled::Sandbox(id) => {
                    // Held: its owner is alive and at work on it.
                    let Some(lock) = self.state.inherit(&id)? else { continue };
                    let _ = self.repair(&id, lock);
                }
                Unsettled::Apply(directory) => {
                    let _ = self.recover_apply(&directory);
                }
            }
        }
        Ok(())
    }

    /// Finishes an apply that was interrupted, in one direction or the other. `None`: it is under way.
    pub(crate) fn recover_apply(&self, directory: &Path) -> Result<Option<Recovered>, EngineError> {
        let Some(_lock) = SandboxLock::take(directory)? else { return Ok(None) };
        let recovered = whatif_apply::recover(directory)?;
        match recovered.outcome {
            whatif_apply::Outcome::RolledBack | whatif_apply::Outcome::Nothing => remove::tree(directory)?,
            whatif_apply::Outcome::RolledForward | whatif_apply::Outcome::WasDone => self.finish_apply(directory)?,
        }
        Ok(Some(recovered))
    }

    fn repair(&self, id: &SandboxId, _lock: SandboxLock) -> Result<(), EngineError> {
        let path = self.state.transient().join(id.as_str());
        match self.store.get(id)? {
            // Half made, or half deleted.
            None => self.clear_away(id),
            Some(sandbox) if sandbox.status == Status::Creating => self.clear_away(id),
            // Its row says it is kept; only the move was missing. (An interrupted `rm` ends up here too: it did not happen.)
            Some(sandbox) if !sandbox.details.transient => {
                self.state.settle(&sandbox.id)?;
                Ok(())
            }
            // A `run` that was killed: decide in its place.
            Some(mut sandbox) => {
                end_keeper_in(&path);
                let summary = self.summarize(&sandbox)?;
                if !summary.matters {
                    return self.clear_away(id);
                }
                mark_lost(&mut sandbox);
                sandbox.details.transient = false;
                sandbox.details.changed_files = summary.changed_files;
                sandbox.details.size_bytes = summary.size_bytes;
                self.store.update(&mut sandbox)?;
                self.state.settle(&sandbox.id)?;
                Ok(())
            }
        }
    }

    fn clear_away(&self, id: &SandboxId) -> Result<(), EngineError> {
        let path = self.state.transient().join(id.as_str());
        end_keeper_in(&path);
        self.store.delete(id)?;
        Ok(remove::tree(&path)?)
    }
}

/// Ends whatever keeper still serves this directory, and waits until it is gone.
fn end_keeper_in(directory: &std::path::Path) {
    if let Ok(mut client) = Client::connect(directory) {
        let _ = rustix::net::sockopt::set_socket_timeout(
            client.as_fd(),
            rustix::net::sockopt::Timeout::Recv,
            Some(Duration::from_secs(5)),
        );
        let _ = client.stop(0);
        // The last thing a keeper does is let go of this connection.
        let _ = client.reply();
    }
}

/// The keeper is gone and nobody asked for that.
pub(crate) fn mark_lost(sandbox: &mut Sandbox) {
    sandbox.status = Status::Stopped;
    sandbox.details.stop_reason = Some(StopReason::Lost);
    sandbox.details.keeper_pid = None;
    sandbox.updated_at = now();
}
