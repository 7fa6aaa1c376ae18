//! Extended attributes of what is held by a descriptor, which may be no more than a path.

use std::os::fd::{AsFd, AsRawFd};
use std::path::PathBuf;

use rustix::fs::{XattrFlags, fgetxattr, flistxattr, fremovexattr, fsetxattr, getxattr, listxattr, removexattr, setxattr};
use rustix::io::Errno;

/// The kernel's own limit, of a list and of a value.
const LONGEST: usize = 64 << 10;
/// Most marks are a byte, most lists a few names.
const USUAL: usize = 1024;

/// The path by which calls that take no mere `O_PATH` descriptor reach what it holds: a link itself, if it is one.
#[must_use]
pub fn path_of(file: &impl AsFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_fd().as_raw_fd()))
}

/// The names of all attributes that something has.
#[derive(Clone, Debug)]
pub struct Names(Vec<u8>);

impl Names {
    pub fn of(file: &impl AsFd) -> Result<Self, Errno> {
        let list = |room: &mut [u8]| match flistxattr(file, &mut *room) {
            Err(Errno::BADF) => listxattr(path_of(file), room),
            other => other,
        };
        match whole(list) {
            Ok(names) => Ok(Self(names)),
            // This file system knows no attributes.
            Err(Errno::NOTSUP) => Ok(Self(Vec::new())),
            Err(errno) => Err(errno),
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.0.split(|byte| *byte == 0).filter(|name| !name.is_empty())
    }
}

/// The whole value, if there is one. Not being allowed to look is an error: a mark that goes unseen uncovers files.
pub(crate) fn get(file: &impl AsFd, name: &str) -> Result<Option<Vec<u8>>, Errno> {
    let get = |room: &mut [u8]| match fgetxattr(file, name, &mut *room) {
        Err(Errno::BADF) => getxattr(path_of(file), name, room),
        other => other,
    };
    match whole(get) {
        Ok(value) => Ok(Some(value)),
        Err(Errno::NODATA | Errno::NOTSUP) => Ok(None),
        Err(errno) => Err(errno),
    }
}

pub(crate) fn set(file: &impl AsFd, name: &str, value: &[u8]) -> Result<(), Errno> {
    write(file, name, value, XattrFlags::empty())
}

/// Changes what is there, and fails if nothing is.
pub(crate) fn replace(file: &impl AsFd, name: &str, value: &[u8]) -> Result<(), Errno> {
    write(file, name, value, XattrFlags::REPLACE)
}

fn write(file: &impl AsFd, name: &str, value: &[u8], flags: XattrFlags) -> Result<(), Errno> {
    match fsetxattr(file, name, value, flags) {
        Err(Errno::BADF) => setxattr(path_of(file), name, value, flags),
        other => other,
    }
}

pub(crate) fn remove(file: &impl AsFd, name: &str) -> Result<(), Errno> {
    let removed = match fremovexattr(file, name) {
        Err(Errno::BADF) => removexattr(path_of(file), name),
        other => other,
    };
    match removed {
        Err(Errno::NODATA | Errno::NOTSUP) => Ok(()),
        other => other,
    }
}

/// What a call answers, with as much room as it needs.
fn whole(call: impl Fn(&mut [u8]) -> Result<usize, Errno>) -> Result<Vec<u8>, Errno> {
    let mut usual = [0_u8; USUAL];
    match call(&mut usual) {
        Ok(length) => return Ok(usual[..length].to_vec()),
        Err(Errno::RANGE) => {}
        Err(errno) => return Err(errno),
    }
    let mut large = vec![0_u8; LONGEST];
    let length = call(&mut large)?;
    large.truncate(length);
    Ok(large)
}
