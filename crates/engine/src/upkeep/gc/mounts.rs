//! Mounts in the state directory. Sandboxes mount in namespaces of their own, so outside there should be none.

use rustix::mount::{UnmountFlags, unmount};

use super::{Action, Collected, OrphanKind};
use crate::EngineError;
use crate::mounts::mounts_in;
use crate::upkeep::Upkeep;

impl Upkeep {
    /// Nobody else has a reason to mount an overlay here; what else is mounted is somebody's, and only named.
    pub(super) fn reconcile_mounts(&self, collected: &mut Collected) -> Result<(), EngineError> {
        for mount in mounts_in(self.ground.state.root())?.iter().rev() {
            if matches!(mount.fs_type.as_str(), "overlay" | "fuse.fuse-overlayfs") {
                let undo = || unmount(&mount.mount_point, UnmountFlags::NOFOLLOW).is_ok();
                collected.treat(OrphanKind::Mount, &mount.mount_point, Action::Unmounted, undo);
            } else {
                collected.orphan(OrphanKind::Mount, &mount.mount_point, Action::Left);
            }
        }
        Ok(())
    }
}
