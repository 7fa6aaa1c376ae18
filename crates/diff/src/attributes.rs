//! Extended attributes, of files held by descriptors that may be no more than a path.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::marks::Marks;

/// What a review and an apply carry. `trusted.*` belongs to the system, the rest of `security.*` to its policy.
const CARRIED: [&str; 4] = ["user.", "system.posix_acl_access", "system.posix_acl_default", "security.capability"];
const LONGEST_LIST: usize = 64 << 10;

pub type Attributes = BTreeMap<OsString, Vec<u8>>;

/// The path of a descriptor; attribute calls do not take one opened for its path only.
pub(crate) fn path_of(file: &impl AsFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_fd().as_raw_fd()))
}

pub(crate) fn get(file: &impl AsFd, name: &OsStr, value: &mut [u8]) -> Option<usize> {
    rustix::fs::getxattr(path_of(file), name, value).ok()
}

/// All carried attributes of the entry at a path, which is not followed if it is a link. `marks` are left out.
#[must_use]
pub fn of(path: &Path, marks: Marks) -> Attributes {
    let mut names = vec![0_u8; 1024];
    let length = loop {
        match rustix::fs::llistxattr(path, &mut names[..]) {
            Ok(length) => break length,
            Err(rustix::io::Errno::RANGE) if names.len() < LONGEST_LIST => names = vec![0; LONGEST_LIST],
            Err(_) => return Attributes::new(),
        }
    };
    if length == 0 {
        return Attributes::new();
    }
    let carried = self::names(&names[..length]).filter(|n| is_carried(n, marks));
    carried.filter_map(|name| Some((OsStr::from_bytes(name).to_owned(), value(path, OsStr::from_bytes(name))?))).collect()
}

/// The names in a list as the kernel gives it.
pub(crate) fn names(list: &[u8]) -> impl Iterator<Item = &[u8]> {
    list.split(|b| *b == 0).filter(|n| !n.is_empty())
}

pub(crate) fn is_carried(name: &[u8], marks: Marks) -> bool {
    CARRIED.iter().any(|c| name.starts_with(c.as_bytes())) && !marks.owns(name)
}

fn value(path: &Path, name: &OsStr) -> Option<Vec<u8>> {
    let mut value = vec![0_u8; 4096];
    loop {
        match rustix::fs::lgetxattr(path, name, &mut value[..]) {
            Ok(length) => {
                value.truncate(length);
                return Some(value);
            }
            Err(rustix::io::Errno::RANGE) if value.len() < LONGEST_LIST => value = vec![0; LONGEST_LIST],
            Err(_) => return None,
        }
    }
}

/// Gives a file these attributes, as far as it can have them.
pub(crate) fn copy(attributes: &Attributes, to: &Path) {
    for (name, value) in attributes {
        let _ = rustix::fs::setxattr(to, name.as_os_str(), value, rustix::fs::XattrFlags::empty());
    }
}
