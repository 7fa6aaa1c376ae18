//! Looks at entries without following or opening them.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, Statx, StatxAttributes, StatxFlags};
use rustix::io::Errno;
use rustix::path::Arg;

use crate::plan::{Identity, Kind};

/// What lies at a name.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub identity: Identity,
    /// What it takes on the disk.
    pub bytes: u64,
    /// Of the mount it lies on; `None` on kernels that do not tell.
    pub mount: Option<u64>,
    pub mount_root: bool,
    /// `chattr +i` or `+a`.
    pub locked: bool,
}

/// The entry `name` in `directory`; `None` if there is none.
pub(crate) fn look(directory: impl AsFd, name: impl Arg) -> io::Result<Option<Seen>> {
    match rustix::fs::statx(directory, name, AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT, MASK) {
        Ok(statx) => Ok(Some(seen(&statx))),
        Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// What a descriptor leads to.
pub(crate) fn look_at(descriptor: impl AsFd) -> io::Result<Seen> {
    Ok(seen(&rustix::fs::statx(descriptor, "", AtFlags::EMPTY_PATH, MASK)?))
}

const MASK: StatxFlags = StatxFlags::BASIC_STATS.union(StatxFlags::MNT_ID);

fn seen(statx: &Statx) -> Seen {
    let kind = match u32::from(statx.stx_mode) & 0o170_000 {
        0o100_000 => Kind::File,
        0o040_000 => Kind::Directory,
        0o120_000 => Kind::Link,
        _ => Kind::Other,
    };
    let attributes = statx.stx_attributes;
    Seen {
        identity: Identity {
            kind,
            dev: rustix::fs::makedev(statx.stx_dev_major, statx.stx_dev_minor),
            ino: statx.stx_ino,
            size: statx.stx_size,
            mtime: (statx.stx_mtime.tv_sec, statx.stx_mtime.tv_nsec),
            ctime: (statx.stx_ctime.tv_sec, statx.stx_ctime.tv_nsec),
            mode: u32::from(statx.stx_mode) & 0o7777,
            uid: statx.stx_uid,
            gid: statx.stx_gid,
            nlink: u64::from(statx.stx_nlink),
        },
        bytes: statx.stx_blocks.saturating_mul(512),
        mount: (statx.stx_mask & StatxFlags::MNT_ID.bits() != 0).then_some(statx.stx_mnt_id),
        mount_root: attributes.contains(StatxAttributes::MOUNT_ROOT),
        locked: attributes.intersects(StatxAttributes::IMMUTABLE | StatxAttributes::APPEND),
    }
}
