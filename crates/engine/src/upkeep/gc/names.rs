//! Names under which running sandboxes are found, and that lead nowhere.

use std::path::{Path, PathBuf};
use std::{fs, io};

use whatif_sys::absence::{self, OrAbsent};
use whatif_types::{SandboxId, Status};

use super::{Action, Collected, OrphanKind};
use crate::EngineError;
use crate::upkeep::Upkeep;

impl Upkeep {
    pub(super) fn reconcile_names(&self, collected: &mut Collected) -> Result<(), EngineError> {
        let directory = self.ground.state.names();
        let entries = fs::read_dir(&directory).or_absent().map_err(|e| EngineError::io("list", &directory, e))?;
        // All of them before the records are asked: a sandbox has its record before its name.
        let mut links = Vec::new();
        for entry in entries.into_iter().flatten() {
            let path = entry.map_err(|e| EngineError::io("list", &directory, e))?.path();
            let target = leads_to(&path)?;
            links.push((path, target));
        }
        for (path, target) in links {
            let id = target.as_ref().and_then(|t| SandboxId::parse(t.file_name()?.to_str()?));
            if let Some(id) = &id
                && self.ground.store.get(id)?.is_none()
                && self.is_adoptable(id)?
            {
                continue;
            }
            let owner = id.and_then(|id| self.ground.store.get(&id).transpose()).transpose()?;
            let leads_somewhere = absence::is_dir(&path).map_err(|e| EngineError::io("examine", &path, e))?;
            let is_owned = owner.is_some_and(|s| s.status == Status::Active && path.ends_with(&s.name) && leads_somewhere);
            // One that leads elsewhere by now is somebody else's.
            if !is_owned && leads_to(&path)? == target {
                collected.treat(OrphanKind::Name, &path, Action::Removed, || fs::remove_file(&path).is_ok());
            }
        }
        Ok(())
    }
}

/// Where a name leads; `None` if it is no link, or gone.
fn leads_to(path: &Path) -> Result<Option<PathBuf>, EngineError> {
    match fs::read_link(path) {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(None),
        other => other.or_absent().map_err(|e| EngineError::io("read", path, e)),
    }
}
