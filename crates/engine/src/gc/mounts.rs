//! Mounts in the state directory. Sandboxes mount in namespaces of their own, so outside there should be none.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::mount::{UnmountFlags, unmount};
use whatif_types::mountinfo::{self, Mount};

use super::{Action, Collected, OrphanKind};
use crate::{Engine, EngineError};

const TABLE: &str = "/proc/self/mountinfo";

impl Engine {
    /// Nobody else has a reason to mount an overlay here; what else is mounted is somebody's, and only named.
    pub(super) fn reconcile_mounts(&self, collected: &mut Collected) -> Result<(), EngineError> {
        for mount in mounts_in(self.state.root())?.iter().rev() {
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

/// The mounts beneath a directory, in the order in which they were made.
pub(super) fn mounts_in(directory: &Path) -> Result<Vec<Mount>, EngineError> {
    let failed = |path: &Path| {
        let path: PathBuf = path.to_owned();
        move |e| EngineError::io("examine", &path, e)
    };
    let directory = fs::canonicalize(directory).map_err(failed(directory))?;
    let table = fs::read(TABLE).map_err(failed(Path::new(TABLE)))?;
    let mounts = mountinfo::parse(&table).map_err(|e| failed(Path::new(TABLE))(std::io::Error::other(e)))?;
    Ok(mounts.into_iter().filter(|m| m.mount_point.starts_with(&directory) && m.mount_point != directory).collect())
}
