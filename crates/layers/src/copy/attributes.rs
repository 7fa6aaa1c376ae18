//! Mode, owner, extended attributes and times of a copy.

use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Gid, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;
use whatif_sys::access_list;
use whatif_types::copied::Attributes;

use super::is_gone;
use crate::{PathError, on};

/// Mode, owner (where allowed), extended attributes and times. A list of those who have access that cannot be read in full is an
/// error: without it the copy would be another file.
pub fn copy_attributes(from: &Path, to: &Path, metadata: &Metadata) -> Result<(), PathError> {
    let copied = of_path(from).and_then(|attributes| give_all(to, metadata, &attributes));
    copied.map_err(on("copy the attributes of", from))
}

/// The same without what overlayfs writes down about a layer: for a directory that takes the place of another one.
pub fn copy_looks(from: &Path, to: &Path, metadata: &Metadata) -> Result<(), PathError> {
    copy(from, to, metadata, is_look).map(drop).map_err(on("copy the attributes of", from))
}

fn is_look(name: &OsStr) -> bool {
    !whatif_overlay::is_reserved(name.as_bytes())
}

/// Whether an attribute is the file's own, and not the system's word about it.
pub(super) fn is_compared(name: &OsStr) -> bool {
    is_look(name) && (!name.as_bytes().starts_with(b"security.") || name == "security.capability")
}

/// Gives a copied directory what reality's looks like now, and takes away the attributes that reality's has no more.
pub(super) fn renew(from: &Path, to: &Path, metadata: &Metadata) -> Result<Attributes, PathError> {
    let given = of_name(from, to, metadata)?;
    let stale = |has: Attributes| has.into_iter().filter(|(name, _)| is_compared(name) && !given.iter().any(|(g, _)| g == name));
    let taken = of_path(to).and_then(|has| {
        for (name, _) in stale(has) {
            rustix::fs::lremovexattr(to, &name)?;
        }
        // An access control list that goes leaves its mask in the mode.
        Ok(rustix::fs::chmod(to, rustix::fs::Mode::from_raw_mode(metadata.mode() & 0o7777))?)
    });
    taken.map_err(on("copy the attributes of", from))?;
    Ok(given)
}

/// Of a directory or link of reality, which may be gone by now. Returns the extended attributes that the copy got.
pub(super) fn of_name(from: &Path, to: &Path, metadata: &Metadata) -> Result<Attributes, PathError> {
    match copy(from, to, metadata, |_| true) {
        Err(error) if is_gone(&error) => give(to, metadata, &[]),
        other => other,
    }
    .map_err(on("copy the attributes of", from))
}

/// The same of the file that is held, whatever its name leads to by now.
pub(super) fn of_file(from: &File, to: &Path, metadata: &Metadata) -> io::Result<Attributes> {
    give(to, metadata, &of_held(from)?)
}

/// Of what is held, be it for its path only.
pub(super) fn of_held(from: &impl AsFd) -> io::Result<Attributes> {
    let at = PathBuf::from(format!("/proc/self/fd/{}", from.as_fd().as_raw_fd()));
    read(|buffer| rustix::fs::listxattr(&at, buffer), |name, buffer| rustix::fs::getxattr(&at, name, buffer))
}

/// Gives a copy in a layer all that was read. A list of those who have access that cannot be read in full is an error: without it the
/// copy would be another file.
pub(super) fn give_all(to: &Path, metadata: &Metadata, attributes: &Attributes) -> io::Result<()> {
    if attributes.iter().any(|(name, value)| access_list::has_strangers(name, value)) {
        return Err(io::Error::other(access_list::STRANGERS));
    }
    give(to, metadata, attributes).map(drop)
}

fn copy(from: &Path, to: &Path, metadata: &Metadata, is_wanted: fn(&OsStr) -> bool) -> io::Result<Attributes> {
    let mut attributes = of_path(from)?;
    attributes.retain(|(name, _)| is_wanted(name));
    give(to, metadata, &attributes)
}

pub(super) fn of_path(from: &Path) -> io::Result<Attributes> {
    let list = |buffer: &mut [u8]| rustix::fs::llistxattr(from, buffer);
    read(list, |name, buffer| rustix::fs::lgetxattr(from, name, buffer))
}

fn give(to: &Path, metadata: &Metadata, attributes: &[(std::ffi::OsString, Vec<u8>)]) -> io::Result<Attributes> {
    let owner = (Some(Uid::from_raw(metadata.uid())), Some(Gid::from_raw(metadata.gid())));
    match rustix::fs::chownat(CWD, to, owner.0, owner.1, AtFlags::SYMLINK_NOFOLLOW) {
        // A user's copy of a file of another user belongs to the user, as with `cp`. Who has entered a user namespace that does not
        // know the other one is told that there is no such user.
        Ok(()) | Err(Errno::PERM | Errno::INVAL) => {}
        Err(errno) => return Err(errno.into()),
    }
    if !metadata.is_symlink() {
        rustix::fs::chmod(to, rustix::fs::Mode::from_raw_mode(metadata.mode() & 0o7777))?;
    }
    let mut given = Vec::new();
    for (name, value) in attributes {
        match rustix::fs::lsetxattr(to, name, value, XattrFlags::empty()) {
            Ok(()) => given.push((name.clone(), value.clone())),
            // What the target file system or our rights do not allow is left out, as with `cp`.
            Err(Errno::PERM | Errno::ACCESS | Errno::NOTSUP | Errno::INVAL) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    let time = |seconds, nanoseconds: i64| Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    let times = Timestamps {
        last_access: time(metadata.atime(), metadata.atime_nsec()),
        last_modification: time(metadata.mtime(), metadata.mtime_nsec()),
    };
    rustix::fs::utimensat(CWD, to, &times, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(given)
}

/// All extended attributes by way of these two calls. A value that goes between them was not there.
fn read(
    list: impl Fn(&mut [u8]) -> rustix::io::Result<usize>,
    get: impl Fn(&OsStr, &mut [u8]) -> rustix::io::Result<usize>,
) -> io::Result<Attributes> {
    let names = match fitting(list) {
        Ok(names) => names,
        Err(Errno::NOTSUP) => return Ok(Vec::new()),
        Err(errno) => return Err(errno.into()),
    };
    let mut attributes = Vec::new();
    for name in names.split(|b| *b == 0).filter(|n| !n.is_empty()).map(OsStr::from_bytes) {
        match fitting(|buffer| get(name, buffer)) {
            Ok(value) => attributes.push((name.to_owned(), value)),
            // Gone since it was listed, or listed for those only who may read it.
            Err(Errno::NODATA | Errno::PERM | Errno::ACCESS | Errno::NOTSUP) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(attributes)
}

/// What a call answers, with as much room as it needs; rarely more than a little.
fn fitting(call: impl Fn(&mut [u8]) -> rustix::io::Result<usize>) -> rustix::io::Result<Vec<u8>> {
    let mut small = [0_u8; 512];
    match call(&mut small) {
        Ok(length) => return Ok(small[..length].to_vec()),
        Err(Errno::RANGE) => {}
        Err(errno) => return Err(errno),
    }
    // The kernel's own limit for names and for a value.
    let mut large = vec![0_u8; 65_536];
    let length = call(&mut large)?;
    large.truncate(length);
    Ok(large)
}
