//! Where to keep state when its usual place cannot hold it: an overlay file system takes no heads of other overlays, and that is what
//! the root directory of a container is.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use whatif_sys::absence::{self, MeansAbsent, OrAbsent};

use crate::state_dir::{self, StateDir};
use crate::{PathError, on};

const OVERLAYFS: u64 = 0x794c_7630;
const TMPFS: u64 = 0x0102_1994;
/// ext4, xfs, btrfs, f2fs.
const ON_DISK: [u64; 4] = [0xEF53, 0x5846_5342, 0x9123_683E, 0xF2F5_2010];
/// With less, hardly a sandbox could change anything.
const LEAST_ROOM: u64 = 16 << 20;
/// Directories that hold what can be made again, where nothing is in anybody's way. A volume with data of its own is not one: what is
/// put there might be taken for a part of it.
const FOR_CACHES: [&str; 5] = ["/var/cache", "/cache", "/var/tmp", "/tmp", "/dev/shm"];

/// A place that was found by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub path: PathBuf,
    pub medium: Medium,
    /// How much more fits there, in bytes.
    pub room: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Medium {
    /// A file system of its own, such as a volume.
    Disk,
    /// Gone when the container stops, and counted as its memory.
    Memory,
}

/// Whether a directory is on an overlay file system, or would be if it were made.
#[must_use]
pub fn is_on_overlay(directory: &Path) -> bool {
    kind_at(directory).is_some_and(|(kind, _)| kind == OVERLAYFS)
}

/// A better place than `usual`, if that one cannot hold overlays and another one can. What `usual` holds already stays in use.
pub fn instead_of(usual: &Path, home: &Path) -> Result<Option<Found>, PathError> {
    if !is_on_overlay(usual) || !state_dir::is_empty(&usual.join("sandboxes")) {
        return Ok(None);
    }
    let uid = rustix::process::geteuid().as_raw();
    let caches = [home.join(".cache")].into_iter().chain(FOR_CACHES.map(PathBuf::from));
    let mut found = Vec::new();
    for directory in caches {
        let Some((medium, room)) = kind_at(&directory).and_then(|(kind, room)| Some((medium_of(kind)?, room))) else { continue };
        let path = directory.join(format!("whatif-{uid}"));
        match is_ours(&path).map_err(on("examine", &path))? {
            // The same for every command, whatever becomes of the room.
            Some(true) if StateDir::is_made(&path)? => return Ok(Some(Found { path, medium, room })),
            Some(false) => continue,
            _ if room < LEAST_ROOM || !can_write(&directory) => continue,
            _ => found.push(Found { path, medium, room }),
        }
    }
    Ok(found.into_iter().min_by_key(|place| place.medium))
}

/// The type of the file system that a directory is on, or would be, and the room in it.
fn kind_at(directory: &Path) -> Option<(u64, u64)> {
    let existing = directory.ancestors().find(|a| absence::is_dir(a).unwrap_or(false))?;
    let found = rustix::fs::statfs(existing).ok()?;
    Some((found.f_type as u64, found.f_bavail.saturating_mul(found.f_bsize.unsigned_abs())))
}

fn medium_of(kind: u64) -> Option<Medium> {
    match kind {
        TMPFS => Some(Medium::Memory),
        kind if ON_DISK.contains(&kind) => Some(Medium::Disk),
        _ => None,
    }
}

/// Whether a directory is ours alone. Others can make one of that name in a directory that is for all. `None`: there is none.
fn is_ours(path: &Path) -> io::Result<Option<bool>> {
    let found = match fs::symlink_metadata(path).or_absent() {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(Some(false)),
        other => other?,
    };
    let own = rustix::process::geteuid().as_raw();
    Ok(found.map(|found| found.is_dir() && found.uid() == own && found.mode() & 0o077 == 0))
}

fn can_write(directory: &Path) -> bool {
    use rustix::fs::{Access, AtFlags, CWD, accessat};
    // What is missing is not made: the parent may be anything.
    accessat(CWD, directory, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS).is_ok()
}

/// A volume that could be named: one that is there, can be written, and outlasts the container.
pub fn lasting(mounts: &[whatif_types::mountinfo::Mount]) -> Result<Option<PathBuf>, PathError> {
    for mount in mounts.iter().filter(|mount| !mount.is_pseudo() && !mount.read_only && mount.mount_point != Path::new("/")) {
        let point = &mount.mount_point;
        let is_there = match absence::is_dir(point) {
            Err(error) if error.means_absent() || error.kind() == io::ErrorKind::PermissionDenied => false,
            other => other.map_err(on("examine", point))?,
        };
        let on_disk = kind_at(point).is_some_and(|(kind, _)| medium_of(kind) == Some(Medium::Disk));
        if is_there && on_disk && can_write(point) {
            return Ok(Some(point.clone()));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_usual_place_that_works_is_kept() {
        assert_eq!(instead_of(Path::new("/dev/shm/nothing/here"), Path::new("/nonexistent")).unwrap(), None);
    }

    #[test]
    fn disks_come_before_memory() {
        assert!(Medium::Disk < Medium::Memory);
        assert_eq!(medium_of(TMPFS), Some(Medium::Memory));
        assert_eq!(medium_of(0xEF53), Some(Medium::Disk));
        assert_eq!(medium_of(OVERLAYFS), None);
    }

    #[test]
    fn a_directory_of_that_name_that_is_open_to_others_is_not_used() {
        use std::os::unix::fs::PermissionsExt;
        let directory = std::env::temp_dir().join(format!("whatif-place-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(is_ours(&directory).unwrap(), Some(false));
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o700)).unwrap();
        assert_eq!(is_ours(&directory).unwrap(), Some(true));
        fs::remove_dir(&directory).unwrap();
        assert_eq!(is_ours(&directory).unwrap(), None);
    }
}
