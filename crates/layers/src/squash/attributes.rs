//! Mode, owner, extended attributes and times, copied in full or not at all.
//!
//! `crate::copy` leaves out what cannot be set, as `cp` does. Here that would change what a sandbox sees.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, Stat, Timespec, Timestamps, Uid, XattrFlags, chmodat, chownat, lgetxattr,
    lgetxattr_query, llistxattr, llistxattr_query, lsetxattr, openat, utimensat,
};
use rustix::io::Errno;
use whatif_sys::access_list;

/// An entry of a held directory.
#[derive(Clone, Copy, Debug)]
pub(super) struct At<'a> {
    pub(super) directory: BorrowedFd<'a>,
    pub(super) name: &'a OsStr,
}

impl<'a> At<'a> {
    pub(super) fn new(directory: &'a impl AsFd, name: &'a OsStr) -> Self {
        Self { directory: directory.as_fd(), name }
    }

    pub(super) fn itself(directory: &'a impl AsFd) -> Self {
        Self::new(directory, OsStr::new("."))
    }

    /// Holds it, whatever it is, without opening it.
    pub(super) fn hold(self) -> Result<OwnedFd, Errno> {
        openat(self.directory, self.name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
    }

    /// Attribute calls know no "at", and none takes the descriptor of a link or a pipe.
    fn path(self) -> PathBuf {
        PathBuf::from(format!("/proc/self/fd/{}", self.directory.as_raw_fd())).join(self.name)
    }
}

/// Owner first, since it takes special bits away; times last, since the rest moves them. `is_kept` picks extended attributes.
pub(super) fn copy(from: At<'_>, stat: &Stat, to: At<'_>, is_kept: impl Fn(&OsStr) -> bool) -> io::Result<()> {
    let owner = (Uid::from_raw(stat.st_uid), Gid::from_raw(stat.st_gid));
    chownat(to.directory, to.name, Some(owner.0), Some(owner.1), AtFlags::SYMLINK_NOFOLLOW)?;
    for name in list(from)?.iter().filter(|name| is_kept(name)) {
        // Gone since it was listed cannot be: layers do not change.
        let value = get(from, name)?.ok_or(io::ErrorKind::NotFound)?;
        if access_list::has_strangers(name, &value) {
            return Err(io::Error::other(access_list::STRANGERS));
        }
        // What a policy of the system has already put there, we may not be allowed to set.
        if get(to, name)?.as_ref() != Some(&value) {
            lsetxattr(to.path(), name, &value, XattrFlags::empty())?;
        }
    }
    if !FileType::from_raw_mode(stat.st_mode).is_symlink() {
        chmodat(to.directory, to.name, Mode::from_raw_mode(stat.st_mode & 0o7777), AtFlags::empty())?;
    }
    let time = |seconds, nanoseconds| Timespec { tv_sec: seconds, tv_nsec: nanoseconds as _ };
    let times = Timestamps {
        last_access: time(stat.st_atime, stat.st_atime_nsec),
        last_modification: time(stat.st_mtime, stat.st_mtime_nsec),
    };
    utimensat(to.directory, to.name, &times, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(())
}

/// The value of an attribute, if it is there.
fn get(entry: At<'_>, name: &OsStr) -> io::Result<Option<Vec<u8>>> {
    let path = entry.path();
    // Most values are short.
    let mut value = vec![0_u8; 256];
    loop {
        match lgetxattr(&path, name, &mut value[..]) {
            Ok(length) => {
                value.truncate(length);
                return Ok(Some(value));
            }
            Err(Errno::NODATA | Errno::NOTSUP) => return Ok(None),
            Err(Errno::RANGE) => value.resize(lgetxattr_query(&path, name)?, 0),
            Err(errno) => return Err(errno.into()),
        }
    }
}

fn list(entry: At<'_>) -> io::Result<Vec<OsString>> {
    let path = entry.path();
    let mut names = match llistxattr_query(&path) {
        Ok(length) => vec![0_u8; length],
        Err(Errno::NOTSUP) => Vec::new(),
        Err(errno) => return Err(errno.into()),
    };
    if !names.is_empty() {
        let length = llistxattr(&path, &mut names[..])?;
        names.truncate(length);
    }
    Ok(names.split(|byte| *byte == 0).filter(|name| !name.is_empty()).map(|name| OsStr::from_bytes(name).to_owned()).collect())
}
