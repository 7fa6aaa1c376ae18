//! What `lstat` says about one entry.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::path::Path;

use rustix::fs::{AtFlags, Statx, StatxFlags, statx};
use rustix::io;
use serde::{Deserialize, Serialize};
use whatif_sys::direct;

use crate::unreadable::Unreadable;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    File,
    Directory,
    #[serde(rename = "symlink")]
    Link,
    Fifo,
    Socket,
    Device,
}

impl Kind {
    /// As `stat` tells it.
    pub(crate) fn of_mode(mode: u32) -> Self {
        match mode & 0o170_000 {
            0o100_000 => Self::File,
            0o040_000 => Self::Directory,
            0o120_000 => Self::Link,
            0o010_000 => Self::Fifo,
            0o140_000 => Self::Socket,
            _ => Self::Device,
        }
    }

    /// Pipes, sockets and devices mean something only where they were made.
    #[must_use]
    pub fn is_special(self) -> bool {
        matches!(self, Self::Fifo | Self::Socket | Self::Device)
    }
}

/// Seconds and nanoseconds.
pub type Time = (i64, u32);

/// Before anything that matters.
pub const LONG_AGO: Time = (i64::MIN, 0);

/// Written as a row of numbers: thousands of them are read before a change set is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Row", into = "Row")]
pub struct Node {
    pub kind: Kind,
    /// Permissions, with setuid, setgid and sticky.
    pub mode: u32,
    pub uid: u32,
    pub gid: u32,
    pub size: u64,
    pub blocks: u64,
    pub mtime: Time,
    pub ctime: Time,
    /// When this inode was made, where the file system tells.
    pub btime: Option<Time>,
    pub dev: u64,
    pub ino: u64,
    pub nlink: u32,
    pub rdev: u64,
}

impl Node {
    /// Of the entry itself, never of what a link points to; without a name, of what is held.
    pub fn at(directory: impl AsFd, name: impl AsRef<OsStr>) -> io::Result<Self> {
        let flags = AtFlags::SYMLINK_NOFOLLOW | AtFlags::NO_AUTOMOUNT | AtFlags::STATX_DONT_SYNC;
        let flags = if name.as_ref().is_empty() { flags | AtFlags::EMPTY_PATH } else { flags };
        let found = statx(directory, name.as_ref(), flags, StatxFlags::BASIC_STATS | StatxFlags::BTIME)?;
        Ok(Self::from(&found))
    }

    /// `None` if nothing is there. What a link on the way leads to is somewhere else.
    pub fn of(path: &Path) -> Result<Option<Self>, Unreadable> {
        let found = direct::find(path).and_then(|held| held.map(|held| Self::at(held, "")).transpose());
        found.map_err(|errno| Unreadable::new(path, errno))
    }

    /// For the record of a path where nothing is.
    pub(crate) fn of_nothing() -> Self {
        Self {
            kind: Kind::File,
            mode: 0,
            uid: 0,
            gid: 0,
            nlink: 0,
            size: 0,
            blocks: 0,
            dev: 0,
            ino: 0,
            rdev: 0,
            mtime: (0, 0),
            ctime: (0, 0),
            btime: None,
        }
    }

    /// Whether both name the same state of the same file: nothing was written to it in between.
    #[must_use]
    pub fn is_untouched_since(&self, earlier: &Self) -> bool {
        self.has_same_content_stamp(earlier) && self.ctime == earlier.ctime
    }

    /// Same file, same size, same time of the last write. Writes that put the time back are not seen by this.
    #[must_use]
    pub fn has_same_content_stamp(&self, other: &Self) -> bool {
        (self.dev, self.ino, self.kind, self.size, self.mtime) == (other.dev, other.ino, other.kind, other.size, other.mtime)
    }
}

impl Node {
    /// Same size, same time of the last write, whatever inode it is. A time in whole seconds is that of an archive as often as not,
    /// where all versions of a file may have the same one: it proves nothing.
    #[must_use]
    pub fn has_same_fine_time(&self, other: &Self) -> bool {
        (self.kind, self.size, self.mtime) == (other.kind, other.size, other.mtime) && self.mtime.1 != 0
    }
}

impl From<&Statx> for Node {
    fn from(found: &Statx) -> Self {
        let mode = u32::from(found.stx_mode);
        let time = |t: &rustix::fs::StatxTimestamp| (t.tv_sec, t.tv_nsec);
        let has_btime = found.stx_mask & StatxFlags::BTIME.bits() != 0;
        Self {
            kind: Kind::of_mode(mode),
            mode: mode & 0o7777,
            uid: found.stx_uid,
            gid: found.stx_gid,
            size: found.stx_size,
            blocks: found.stx_blocks,
            mtime: time(&found.stx_mtime),
            ctime: time(&found.stx_ctime),
            btime: has_btime.then(|| time(&found.stx_btime)),
            dev: rustix::fs::makedev(found.stx_dev_major, found.stx_dev_minor),
            ino: found.stx_ino,
            nlink: found.stx_nlink,
            rdev: rustix::fs::makedev(found.stx_rdev_major, found.stx_rdev_minor),
        }
    }
}

type Row = (Kind, [u32; 4], [u64; 5], Time, Time, Option<Time>);

impl From<Node> for Row {
    fn from(n: Node) -> Self {
        (n.kind, [n.mode, n.uid, n.gid, n.nlink], [n.size, n.blocks, n.dev, n.ino, n.rdev], n.mtime, n.ctime, n.btime)
    }
}

impl From<Row> for Node {
    fn from((kind, [mode, uid, gid, nlink], [size, blocks, dev, ino, rdev], mtime, ctime, btime): Row) -> Self {
        Self { kind, mode, uid, gid, size, blocks, mtime, ctime, btime, dev, ino, nlink, rdev }
    }
}
