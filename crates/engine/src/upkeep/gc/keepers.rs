//! Keepers of this state directory that no record knows of.

use std::fs;
use std::path::Path;

use whatif_layers::state_dir::SandboxLock;
use whatif_provider::Orphan;
use whatif_types::Status;

use super::{Action, Collected, OrphanKind};
use crate::EngineError;
use crate::ground::keepers::{all_in, end_orphan};
use crate::upkeep::Upkeep;

/// Nobody knows this keeper, and nobody is about to: whoever could be is kept out.
struct Unowned {
    _lock: Option<SandboxLock>,
}

impl Upkeep {
    /// They end, and everything in them. What they wrote is not touched.
    pub(super) fn reconcile_keepers(&self, collected: &mut Collected) -> Result<(), EngineError> {
        let root = self.ground.state.root();
        let root = fs::canonicalize(root).map_err(|e| EngineError::io("examine", root, e))?;
        for orphan in all_in(&root) {
            if let Some(_unowned) = self.is_unowned(&orphan)? {
                let what = format!("{} (the keeper of {})", orphan.handle, orphan.id);
                collected.treat(OrphanKind::Process, Path::new(&what), Action::Ended, || end_orphan(&orphan));
            }
        }
        Ok(())
    }

    fn is_unowned(&self, orphan: &Orphan) -> Result<Option<Unowned>, EngineError> {
        let Some(directory) = &orphan.directory else { return Ok(Some(Unowned { _lock: None })) };
        // What is being made, decided about or deleted, or waits in the pool, has an owner or is repaired elsewhere.
        let settled =
            self.ground.state.settled()?.into_iter().find(|id| directory.ends_with(Path::new("sandboxes").join(id.as_str())));
        let Some(id) = settled else { return Ok(None) };
        let Some(lock) = SandboxLock::take(directory)? else { return Ok(None) };
        // With the records lost, it is a sandbox that can be adopted as it runs.
        let is_known = match self.ground.store.get(&id)? {
            Some(sandbox) => sandbox.status == Status::Active,
            None => self.is_adoptable(&id)?,
        };
        Ok((!is_known).then_some(Unowned { _lock: Some(lock) }))
    }
}
