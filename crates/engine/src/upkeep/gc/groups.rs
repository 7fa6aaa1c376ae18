//! What limited or held sandboxes that do not run.

use std::path::Path;

use whatif_layers::state_dir::AliveLock;
use whatif_provider::Remains;
use whatif_types::SandboxId;

use super::{Action, Collected, OrphanKind};
use crate::EngineError;
use crate::upkeep::Upkeep;

impl Upkeep {
    /// What is left in them ends with them.
    pub(super) fn reconcile_groups(&self, collected: &mut Collected) -> Result<(), EngineError> {
        for provider in whatif_provider::ALL {
            let is_left = |remains: &Remains| !remains.id.as_ref().is_some_and(|id| self.may_use_group(id));
            for remains in provider.remains(self.ground.state.root())?.iter().filter(|remains| is_left(remains)) {
                collected.treat(OrphanKind::Group, Path::new(&remains.name), Action::Removed, || provider.remove(remains));
            }
            if !collected.dry_run {
                provider.tidy();
            }
        }
        Ok(())
    }

    /// A keeper holds its lock before its group is made. What is being made or deleted has an owner who sees to it.
    fn may_use_group(&self, id: &SandboxId) -> bool {
        // What cannot be looked at is in use.
        let is_used = |directory: std::path::PathBuf| {
            directory.starts_with(self.ground.state.transient()) || AliveLock::is_held(&directory).unwrap_or(true)
        };
        self.ground.state.find(id).map_or(true, |found| found.is_some_and(is_used))
    }
}
