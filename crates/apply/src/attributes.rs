//! Owner, mode, extended attributes and times, in the order in which the kernel keeps them.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Gid, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, Uid, XattrFlags};
use rustix::io::Errno;

use crate::look::look_at;
use crate::plan::{Attributes, Kind, Time};

pub(crate) type Xattrs = Vec<(OsString, Vec<u8>)>;

impl Attributes {
    /// Of the entry at `path`, which is not followed.
    pub fn of(path: &Path) -> io::Result<Self> {
        let descriptor = rustix::fs::open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
        let identity = look_at(&descriptor)?.identity;
        let xattrs = if identity.kind == Kind::Link { Vec::new() } else { xattrs(&descriptor)? };
        Ok(identity.attributes(xattrs))
    }
}

/// Whether an extended attribute is ours to set and remove.
pub(crate) fn is_managed(name: &OsStr) -> bool {
    let name = name.as_bytes();
    name.starts_with(b"user.") || is_acl(name) || name == b"security.capability"
}

fn is_acl(name: &[u8]) -> bool {
    name == ACL || name == b"system.posix_acl_default"
}

pub(crate) const ACL: &[u8] = b"system.posix_acl_access";

/// The name by which calls that refuse a mere `O_PATH` descriptor reach what it holds.
pub(crate) fn by_descriptor(descriptor: &impl AsFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", descriptor.as_fd().as_raw_fd()))
}

/// Opens the entry itself, whatever it is, without waking it: pipes and devices stay asleep.
pub(crate) fn hold(directory: impl AsFd, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(rustix::io::retry_on_intr(|| rustix::fs::openat(&directory, name, flags, Mode::empty()))?)
}

/// The managed ones.
pub(crate) fn xattrs(descriptor: &impl AsFd) -> io::Result<Xattrs> {
    let mut found = Vec::new();
    for name in names(descriptor)? {
        let mut value = vec![0_u8; 65_536];
        match rustix::fs::getxattr(by_descriptor(descriptor), &name, &mut value[..]) {
            Ok(length) => {
                value.truncate(length);
                found.push((name, value));
            }
            Err(Errno::NODATA) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    found.sort();
    Ok(found)
}

fn names(descriptor: &impl AsFd) -> io::Result<Vec<OsString>> {
    Ok(list_names(descriptor)?.into_iter().filter(|n| is_managed(n)).collect())
}

/// Of all extended attributes.
pub(crate) fn list_names(descriptor: &impl AsFd) -> io::Result<Vec<OsString>> {
    let list = |buffer: &mut [u8]| match rustix::fs::flistxattr(descriptor, &mut *buffer) {
        Err(Errno::BADF) => rustix::fs::listxattr(by_descriptor(descriptor), buffer),
        other => other,
    };
    let mut buffer = [0_u8; 1024];
    match list(&mut buffer) {
        Ok(length) => Ok(split(&buffer[..length])),
        Err(Errno::RANGE) => {
            let mut buffer = vec![0_u8; 65_536];
            let length = list(&mut buffer)?;
            Ok(split(&buffer[..length]))
        }
        Err(Errno::OPNOTSUPP) => Ok(Vec::new()),
        Err(errno) => Err(errno.into()),
    }
}

fn split(list: &[u8]) -> Vec<OsString> {
    list.split(|b| *b == 0).filter(|n| !n.is_empty()).map(|n| OsString::from_vec(n.to_vec())).collect()
}

/// Gives a file or directory all its attributes. `descriptor` may be an `O_PATH` one.
///
/// The order matters: a change of owner clears set-id bits and capabilities, `user.*` needs a mode that can be written, a mode
/// changes the mask of an ACL, and everything changes times.
pub(crate) fn settle(descriptor: &impl AsFd, wanted: &Attributes) -> io::Result<()> {
    let now = look_at(descriptor)?.identity;
    if (now.uid, now.gid) != (wanted.uid, wanted.gid) {
        let (uid, gid) = (Uid::from_raw(wanted.uid), Gid::from_raw(wanted.gid));
        rustix::fs::chownat(descriptor, "", Some(uid), Some(gid), AtFlags::EMPTY_PATH)?;
    }
    let writable = |change: &dyn Fn() -> rustix::io::Result<()>| match change() {
        Err(Errno::ACCESS) => {
            set_mode(descriptor, now.mode | 0o200)?;
            Ok(change()?)
        }
        Ok(()) | Err(Errno::NODATA) => Ok(()),
        Err(errno) => Err(io::Error::from(errno)),
    };
    for name in names(descriptor)?.iter().filter(|n| !wanted.xattrs.iter().any(|(w, _)| w == *n)) {
        writable(&|| rustix::fs::removexattr(by_descriptor(descriptor), name))?;
    }
    for (name, value) in wanted.xattrs.iter().filter(|(n, _)| !is_acl(n.as_bytes())) {
        writable(&|| rustix::fs::setxattr(by_descriptor(descriptor), name, value, XattrFlags::empty()))?;
    }
    set_mode(descriptor, wanted.mode)?;
    for (name, value) in wanted.xattrs.iter().filter(|(n, _)| is_acl(n.as_bytes())) {
        rustix::fs::setxattr(by_descriptor(descriptor), name, value, XattrFlags::empty())?;
    }
    match wanted.mtime {
        Some(time) => set_mtime(descriptor, time),
        None => Ok(()),
    }
}

/// Whether two sets of extended attributes are the same, in whatever order they are listed.
pub(crate) fn same(a: &Xattrs, b: &Xattrs) -> bool {
    a.len() == b.len() && a.iter().all(|pair| b.contains(pair))
}

/// What a directory gets that is to become `wanted`, was planned as `before`, and is `now`. What others changed in the last moment
/// stays theirs, attribute by attribute; whether there was such a change is the second part of the answer.
pub(crate) fn without_overwriting(before: &Attributes, now: &Attributes, wanted: &Attributes) -> (Attributes, bool) {
    let mut is_theirs = false;
    let mut result = wanted.clone();
    let mut pick = |before: u32, now: u32, wanted: &mut u32| {
        if now != before && now != *wanted {
            (*wanted, is_theirs) = (now, true);
        }
    };
    pick(before.mode, now.mode, &mut result.mode);
    pick(before.uid, now.uid, &mut result.uid);
    pick(before.gid, now.gid, &mut result.gid);
    let names: BTreeSet<&OsString> = [before, now, wanted].iter().flat_map(|a| a.xattrs.iter().map(|(name, _)| name)).collect();
    for name in names {
        let (was, is, shall) = (value(before, name), value(now, name), value(wanted, name));
        if is != was && is != shall {
            is_theirs = true;
            result.xattrs.retain(|(n, _)| n != name);
            result.xattrs.extend(is.map(|value| (name.clone(), value.to_vec())));
        }
    }
    (result, is_theirs)
}

fn value<'a>(attributes: &'a Attributes, name: &OsStr) -> Option<&'a [u8]> {
    attributes.xattrs.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_slice())
}

/// Sets only the time of modification.
pub(crate) fn set_mtime(descriptor: &impl AsFd, time: Time) -> io::Result<()> {
    Ok(rustix::fs::utimensat(descriptor, "", &only_mtime(time), AtFlags::EMPTY_PATH)?)
}

/// Owner and time of a link.
pub(crate) fn settle_link(directory: impl AsFd, name: &OsStr, wanted: &Attributes) -> io::Result<()> {
    let (uid, gid) = (Uid::from_raw(wanted.uid), Gid::from_raw(wanted.gid));
    rustix::fs::chownat(&directory, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
    if let Some(time) = wanted.mtime {
        rustix::fs::utimensat(&directory, name, &only_mtime(time), AtFlags::SYMLINK_NOFOLLOW)?;
    }
    Ok(())
}

/// Sets the permission bits of what a descriptor holds, `O_PATH` or not.
pub(crate) fn set_mode(descriptor: &impl AsFd, mode: u32) -> io::Result<()> {
    let mode = Mode::from_raw_mode(mode);
    match rustix::fs::fchmod(descriptor, mode) {
        Err(Errno::BADF) => Ok(rustix::fs::chmod(by_descriptor(descriptor), mode)?),
        other => Ok(other?),
    }
}

/// Sets an ACL that goes with a mode, or removes it.
pub(crate) fn set_acl(descriptor: &impl AsFd, value: Option<&[u8]>) -> io::Result<()> {
    let path = by_descriptor(descriptor);
    match value {
        Some(value) => Ok(rustix::fs::setxattr(path, ACL, value, XattrFlags::empty())?),
        None => match rustix::fs::removexattr(path, ACL) {
            Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(()),
            Err(errno) => Err(errno.into()),
        },
    }
}

fn only_mtime((seconds, nanoseconds): Time) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: seconds, tv_nsec: i64::from(nanoseconds) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_changed_in_the_last_moment_stays() {
        let with =
            |mode, note: &[u8]| Attributes { mode, xattrs: vec![("user.note".into(), note.to_vec())], ..Attributes::default() };
        let (before, wanted) = (with(0o755, b"a"), with(0o700, b"b"));
        assert_eq!(without_overwriting(&before, &before, &wanted), (wanted.clone(), false));
        assert_eq!(without_overwriting(&before, &wanted, &wanted), (wanted.clone(), false), "recovery comes here again");
        assert_eq!(without_overwriting(&before, &with(0o711, b"a"), &wanted), (with(0o711, b"b"), true));
        assert_eq!(without_overwriting(&before, &with(0o755, b"c"), &wanted), (with(0o700, b"c"), true));
        let bare = Attributes { xattrs: Vec::new(), ..before.clone() };
        assert_eq!(without_overwriting(&before, &bare, &wanted), (Attributes { xattrs: Vec::new(), ..wanted }, true));
    }
}
