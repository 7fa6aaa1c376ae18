//! Sockets of keepers that are gone, where no sandbox will replace them.

use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use whatif_keeper::client::SOCKET;
use whatif_layers::state_dir::{AliveLock, SandboxLock};
use whatif_types::SandboxId;

use super::{Action, Collected, OrphanKind};
use crate::EngineError;
use crate::upkeep::Upkeep;

impl Upkeep {
    /// A sandbox that is only stopped keeps its own: the next keeper puts a new one in its place.
    pub(super) fn reconcile_sockets(&self, collected: &mut Collected) -> Result<(), EngineError> {
        for place in [self.ground.state.sandboxes(), self.ground.state.spares()] {
            for entry in fs::read_dir(&place).into_iter().flatten().filter_map(Result::ok) {
                // Of what has another name, somebody is about to make something or has just let go.
                let Some(id) = entry.file_name().to_str().and_then(SandboxId::parse) else { continue };
                let is_known = self.ground.store.get(&id)?.is_some() || self.is_adoptable(&id)?;
                let socket = entry.path().join(SOCKET);
                if !is_known
                    && is_socket(&socket)
                    && let Some(_lock) = self.nobody_listens(&entry.path())?
                {
                    collected.treat(OrphanKind::Socket, &socket, Action::Removed, || fs::remove_file(&socket).is_ok());
                }
            }
        }
        Ok(())
    }

    fn nobody_listens(&self, directory: &Path) -> Result<Option<SandboxLock>, EngineError> {
        let lock = SandboxLock::take(directory)?;
        let is_held = AliveLock::is_held(directory)?;
        Ok(lock.filter(|_| !is_held))
    }
}

fn is_socket(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket())
}
