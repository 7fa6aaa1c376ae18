//! `mount_setattr`, which rustix does not wrap.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use crate::check;

pub const READ_ONLY: u64 = libc::MOUNT_ATTR_RDONLY;
pub const NO_SUID: u64 = libc::MOUNT_ATTR_NOSUID;
pub const NO_DEV: u64 = libc::MOUNT_ATTR_NODEV;
pub const NO_EXEC: u64 = libc::MOUNT_ATTR_NOEXEC;

/// Whether a change reaches the mounts below as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    One,
    Recursive,
}

/// Adds attributes to the mount a descriptor stands for.
pub fn add_attributes(mount: impl AsFd, attributes: u64, reach: Reach) -> io::Result<()> {
    set(mount.as_fd(), libc::mount_attr { attr_set: attributes, attr_clr: 0, propagation: 0, userns_fd: 0 }, reach)
}

/// Takes attributes away again.
pub fn remove_attributes(mount: impl AsFd, attributes: u64, reach: Reach) -> io::Result<()> {
    set(mount.as_fd(), libc::mount_attr { attr_set: 0, attr_clr: attributes, propagation: 0, userns_fd: 0 }, reach)
}

/// Maps the ids of a detached mount through a user namespace. Fails where the file system cannot.
pub fn map_ids(mount: impl AsFd, user_namespace: impl AsFd) -> io::Result<()> {
    let userns_fd = u64::try_from(user_namespace.as_fd().as_raw_fd()).map_err(|_| io::ErrorKind::InvalidInput)?;
    set(mount.as_fd(), libc::mount_attr { attr_set: libc::MOUNT_ATTR_IDMAP, attr_clr: 0, propagation: 0, userns_fd }, Reach::One)
}

fn set(mount: BorrowedFd<'_>, attributes: libc::mount_attr, reach: Reach) -> io::Result<()> {
    let flags = libc::AT_EMPTY_PATH | if reach == Reach::Recursive { libc::AT_RECURSIVE } else { 0 };
    // SAFETY: the path is a static empty string, the structure outlives the call and its true size is given.
    check(unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            mount.as_raw_fd(),
            c"".as_ptr(),
            flags,
            &raw const attributes,
            size_of::<libc::mount_attr>(),
        )
    })?;
    Ok(())
}
