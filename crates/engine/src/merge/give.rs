//! Gives files and directories the attributes that a merge came to.

use std::ffi::OsStr;
use std::path::Path;
use std::{fs, io};

use rustix::fs::{AtFlags, CWD, Gid, Mode, OFlags, Uid, XattrFlags};
use rustix::io::Errno;
use whatif_diff::{State, acl};

use super::Looks;

/// Gives a directory these attributes, and gets them onto the disk.
pub(crate) fn give(place: &Path, now: &State, looks: &Looks) -> io::Result<()> {
    settle(place, now, looks)?;
    flush(place)?;
    place.parent().map_or(Ok(()), flush)
}

/// Gives a file or directory these attributes, and takes away those it has `now` besides. The marks of the layer stay.
///
/// The order matters: a change of owner clears set-id bits and capabilities, and a mode changes the mask of an access control list.
pub(crate) fn settle(path: &Path, now: &State, looks: &Looks) -> io::Result<()> {
    chown(path, looks)?;
    let wanted = looks.xattrs();
    let is_acl = |name: &OsStr| name == acl::ACCESS;
    let current = State::new(now.node.clone(), path.to_owned(), now.marks());
    for name in current.attributes()?.keys().filter(|n| !wanted.contains_key(*n)) {
        match rustix::fs::lremovexattr(path, name) {
            Ok(()) | Err(Errno::NODATA) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    for (name, value) in wanted.iter().filter(|(n, _)| !is_acl(n)) {
        rustix::fs::lsetxattr(path, name, value, XattrFlags::empty())?;
    }
    rustix::fs::chmod(path, Mode::from_raw_mode(looks.mode))?;
    for (name, value) in wanted.iter().filter(|(n, _)| is_acl(n)) {
        rustix::fs::lsetxattr(path, name, value, XattrFlags::empty())?;
    }
    Ok(())
}

pub(crate) fn chown(path: &Path, looks: &Looks) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    let now = fs::symlink_metadata(path)?;
    if (now.uid(), now.gid()) == (looks.uid, looks.gid) {
        return Ok(());
    }
    let (uid, gid) = (Uid::from_raw(looks.uid), Gid::from_raw(looks.gid));
    Ok(rustix::fs::chownat(CWD, path, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?)
}

pub(crate) fn flush(directory: &Path) -> io::Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::open(directory, flags, Mode::empty()) {
        Ok(directory) => Ok(rustix::fs::fsync(directory)?),
        // One that its owner may not read is flushed with its file system.
        Err(Errno::ACCESS) => {
            rustix::fs::sync();
            Ok(())
        }
        Err(errno) => Err(errno.into()),
    }
}
