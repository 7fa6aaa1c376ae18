//! Extended attributes, of files held by descriptors that may be no more than a path.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::io::Errno;
use whatif_overlay::{Format, Names, path_of};
use whatif_sys::direct;

use crate::unreadable::Unreadable;

/// What a review and an apply carry. `trusted.*` belongs to the system, the rest of `security.*` to its policy.
const CARRIED: [&str; 4] = ["user.", "system.posix_acl_access", "system.posix_acl_default", "security.capability"];
const LONGEST_VALUE: usize = 64 << 10;

pub type Attributes = BTreeMap<OsString, Vec<u8>>;

/// All carried attributes of the entry at a path that leads through no link, of a link itself if it is one. `marks` are left out.
pub fn of(path: &Path, marks: Format) -> Result<Attributes, Unreadable> {
    direct::hold(path).and_then(|held| of_held(&held, marks)).map_err(|errno| Unreadable::new(path, errno))
}

/// All carried attributes of what an open file holds, which may be a directory and may be open for its path only.
pub fn of_open(file: &impl AsFd) -> io::Result<Attributes> {
    Ok(of_held(file, Format::None)?)
}

/// The same without `marks`.
pub(crate) fn of_held(file: &impl AsFd, marks: Format) -> Result<Attributes, Errno> {
    let path = path_of(file);
    let mut attributes = Attributes::new();
    for name in Names::of(file)?.iter().filter(|n| is_carried(n, marks)).map(OsStr::from_bytes) {
        if let Some(value) = value(&path, name)? {
            attributes.insert(name.to_owned(), value);
        }
    }
    Ok(attributes)
}

pub(crate) fn is_carried(name: &[u8], marks: Format) -> bool {
    CARRIED.iter().any(|c| name.starts_with(c.as_bytes())) && !marks.reserves(name)
}

fn value(path: &Path, name: &OsStr) -> Result<Option<Vec<u8>>, Errno> {
    let mut value = vec![0_u8; 4096];
    loop {
        match rustix::fs::getxattr(path, name, &mut value[..]) {
            Ok(length) => {
                value.truncate(length);
                return Ok(Some(value));
            }
            Err(Errno::RANGE) if value.len() < LONGEST_VALUE => value = vec![0; LONGEST_VALUE],
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
