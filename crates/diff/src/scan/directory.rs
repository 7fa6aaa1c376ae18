//! Directories held by descriptors: opened without following anything, listed without opening them again.

use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, Mode, OFlags, RawDir, ResolveFlags, StatxAttributes, StatxFlags, open, openat2, statx};
use rustix::io::Errno;

/// Room for the names of one call; larger directories take several.
const ROOM: usize = 32 << 10;

pub(super) fn hold(path: &Path) -> Result<OwnedFd, Errno> {
    open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// A directory below a held one, whose path leads through no link.
pub(super) fn beneath(directory: &OwnedFd, path: &Path) -> Result<OwnedFd, Errno> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    openat2(directory, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty(), resolve)
}

/// Whether something is mounted at a name.
pub(super) fn is_mounted(directory: &OwnedFd, name: &OsStr) -> Result<bool, Errno> {
    let found = statx(directory, name, AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT, StatxFlags::empty())?;
    Ok(found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

pub(super) fn list(directory: &OwnedFd) -> Result<Vec<OsString>, Errno> {
    let mut room = [MaybeUninit::uninit(); ROOM];
    let mut entries = RawDir::new(directory, &mut room);
    let mut names = Vec::new();
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(OsStr::from_bytes(name).to_owned());
        }
    }
    Ok(names)
}

/// What is said of a directory that was there a moment ago and is not any more: absence would hide what the sandbox did in it.
pub(super) fn gone_meanwhile(errno: Errno) -> Errno {
    match errno {
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP => Errno::STALE,
        other => other,
    }
}
