//! Extended attributes, of files held by descriptors that may be no more than a path.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use whatif_sys::direct;

use crate::marks::Marks;
use crate::unreadable::Unreadable;

/// What a review and an apply carry. `trusted.*` belongs to the system, the rest of `security.*` to its policy.
const CARRIED: [&str; 4] = ["user.", "system.posix_acl_access", "system.posix_acl_default", "security.capability"];
const LONGEST_LIST: usize = 64 << 10;

pub type Attributes = BTreeMap<OsString, Vec<u8>>;

/// The path of a descriptor; attribute calls do not take one opened for its path only.
pub(crate) fn path_of(file: &impl AsFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_fd().as_raw_fd()))
}

/// The length of a value; `None` if there is none, or one longer than any that is asked for.
pub(crate) fn get(file: &impl AsFd, name: &OsStr, value: &mut [u8]) -> Result<Option<usize>, Errno> {
    match rustix::fs::getxattr(path_of(file), name, value) {
        Ok(length) => Ok(Some(length)),
        Err(Errno::NODATA | Errno::NOTSUP | Errno::RANGE) => Ok(None),
        Err(errno) => Err(errno),
    }
}

/// All carried attributes of the entry at a path that leads through no link, of a link itself if it is one. `marks` are left out.
pub fn of(path: &Path, marks: Marks) -> Result<Attributes, Unreadable> {
    direct::hold(path).and_then(|held| of_held(&held, marks)).map_err(|errno| Unreadable::new(path, errno))
}

/// All carried attributes of what an open file holds, which may be a directory and may be open for its path only.
pub fn of_open(file: &impl AsFd) -> io::Result<Attributes> {
    Ok(of_held(file, Marks::None)?)
}

/// The same without `marks`.
pub(crate) fn of_held(file: &impl AsFd, marks: Marks) -> Result<Attributes, Errno> {
    let path = path_of(file);
    let mut names = vec![0_u8; 1024];
    let length = loop {
        match rustix::fs::listxattr(&path, &mut names[..]) {
            Ok(length) => break length,
            Err(Errno::RANGE) if names.len() < LONGEST_LIST => names = vec![0; LONGEST_LIST],
            // This file system knows no attributes.
            Err(Errno::NOTSUP) => return Ok(Attributes::new()),
            Err(errno) => return Err(errno),
        }
    };
    let mut attributes = Attributes::new();
    for name in self::names(&names[..length]).filter(|n| is_carried(n, marks)).map(OsStr::from_bytes) {
        if let Some(value) = value(&path, name)? {
            attributes.insert(name.to_owned(), value);
        }
    }
    Ok(attributes)
}

/// The names in a list as the kernel gives it.
pub(crate) fn names(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|b| *b == 0).filter(|n| !n.is_empty())
}

pub(crate) fn is_carried(name: &[u8], marks: Marks) -> bool {
    CARRIED.iter().any(|c| name.starts_with(c.as_bytes())) && !marks.owns(name)
}

fn value(path: &Path, name: &OsStr) -> Result<Option<Vec<u8>>, Errno> {
    let mut value = vec![0_u8; 4096];
    loop {
        match rustix::fs::getxattr(path, name, &mut value[..]) {
            Ok(length) => {
                value.truncate(length);
                return Ok(Some(value));
            }
            Err(Errno::RANGE) if value.len() < LONGEST_LIST => value = vec![0; LONGEST_LIST],
            // Taken away since it was listed.
            Err(Errno::NODATA) => return Ok(None),
            Err(errno) => return Err(errno),
        }
    }
}

/// Gives a file these attributes, as far as it can have them.
pub(crate) fn copy(attributes: &Attributes, to: &Path) {
    for (name, value) in attributes {
        let _ = rustix::fs::setxattr(to, name.as_os_str(), value, rustix::fs::XattrFlags::empty());
    }
}
