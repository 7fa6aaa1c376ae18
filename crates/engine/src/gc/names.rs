//! Names under which running sandboxes are found, and that lead nowhere.

use std::fs;

use whatif_types::{SandboxId, Status};

use super::{Action, Collected, OrphanKind};
use crate::{Engine, EngineError};

impl Engine {
    pub(super) fn reconcile_names(&self, collected: &mut Collected) -> Result<(), EngineError> {
        let directory = self.state.names();
        let entries = fs::read_dir(&directory).map_err(|e| EngineError::io("list", &directory, e))?;
        // All of them before the records are asked: a sandbox has its record before its name.
        let links: Vec<_> = entries.filter_map(Result::ok).map(|e| (e.path(), fs::read_link(e.path()))).collect();
        for (path, target) in links {
            let id = target.as_ref().ok().and_then(|t| SandboxId::parse(t.file_name()?.to_str()?));
            if let Some(id) = &id
                && self.store.get(id)?.is_none()
                && self.is_adoptable(id)
            {
                continue;
            }
            let owner = id.and_then(|id| self.store.get(&id).transpose()).transpose()?;
            let is_owned = owner.is_some_and(|s| s.status == Status::Active && path.ends_with(&s.name) && path.is_dir());
            // One that leads elsewhere by now is somebody else's.
            if !is_owned && fs::read_link(&path).ok() == target.ok() {
                collected.treat(OrphanKind::Name, &path, Action::Removed, || fs::remove_file(&path).is_ok());
            }
        }
        Ok(())
    }
}
