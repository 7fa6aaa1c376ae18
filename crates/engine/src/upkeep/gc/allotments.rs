//! Limits of the file system on heads that are gone.

use std::path::Path;

use super::{Action, Collected, OrphanKind};
use crate::EngineError;
use crate::upkeep::Upkeep;

impl Upkeep {
    /// A head gets its limit when it is there, so no other command needs one that has no files.
    pub(super) fn reconcile_allotments(&self, collected: &mut Collected) -> Result<(), EngineError> {
        let Some(allotments) = self.ground.allotments()? else { return Ok(()) };
        for project in allotments.left_over()? {
            let name = project.to_string();
            collected.treat(OrphanKind::Quota, Path::new(&name), Action::Removed, || allotments.release(project).is_ok());
        }
        Ok(())
    }
}
