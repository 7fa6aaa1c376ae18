//! What is mounted in a tree is no part of its copy.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, StatxAttributes, StatxFlags, statx};
use whatif_sys::absence::OrAbsent;

use crate::{PathError, on};

/// Whether something is mounted at a path of a tree on this device. A bind mount may be of the same device, which only a directory is
/// asked about: a file is copied as it is read.
pub(super) fn is_mounted(path: &Path, metadata: &Metadata, device: u64) -> Result<bool, PathError> {
    if metadata.dev() != device || !metadata.is_dir() {
        return Ok(metadata.dev() != device);
    }
    let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT;
    let found = statx(CWD, path, flags, StatxFlags::empty()).or_absent().map_err(on("examine", path))?;
    Ok(found.is_some_and(|found| found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT)))
}
