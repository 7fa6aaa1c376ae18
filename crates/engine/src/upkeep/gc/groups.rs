//! Control groups of sandboxes that do not run.

use std::path::Path;

use whatif_cgroup::Found;
use whatif_layers::state_dir::AliveLock;
use whatif_types::SandboxId;

use super::{Action, Collected, OrphanKind};
use crate::EngineError;
use crate::upkeep::Upkeep;

impl Upkeep {
    /// What is left in them ends with them.
    pub(super) fn reconcile_groups(&self, collected: &mut Collected) -> Result<(), EngineError> {
        let (found, prefix) = (Found::look(), self.ground.group_prefix()?);
        for name in whatif_cgroup::list(&found, &prefix)? {
            let is_used = SandboxId::parse(&name[prefix.len()..]).is_some_and(|id| self.may_use_group(&id));
            if !is_used {
                let removal = || whatif_cgroup::remove(&found, &name).is_ok();
                collected.treat(OrphanKind::Group, Path::new(&name), Action::Removed, removal);
            }
        }
        if !collected.dry_run {
            whatif_cgroup::tidy(&found);
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
