//! Where a path leads inside, without ever waiting for anything.
//!
//! Processes inside make the links and files that a path leads through, and change them meanwhile. The links of `/proc` are not
//! followed: they lead to whatever another process has open or mounted. Nothing is opened before it is known to be a regular file.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, FileType, Mode, OFlags, PROC_SUPER_MAGIC, ResolveFlags, Stat, fstat, fstatfs, openat2, readlinkat, statat,
};
use rustix::io::Errno;

use crate::protocol::{EntryKind, Failed, FileStat, Reason, Text};

/// As long as a path may be for the kernel.
const LONGEST_PATH: usize = 4096;
/// As many links as the kernel follows.
const MOST_LINKS: usize = 40;

/// A name in a directory that is held.
pub(super) struct Place {
    pub parent: OwnedFd,
    pub name: CString,
}

impl Place {
    /// The last name is not followed if it is that of a link.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else { return Err(Errno::INVAL.into()) };
        let parent = open_path(parent, OFlags::DIRECTORY)?;
        Ok(Self { parent, name: CString::new(name.as_bytes()).map_err(|_| Errno::INVAL)? })
    }

    /// The last name is followed as long as it is that of a link. What it leads to need not be there.
    pub(super) fn beyond_links(path: &Path) -> io::Result<Self> {
        let mut path = path.to_owned();
        for _ in 0..MOST_LINKS {
            let place = Self::of(&path)?;
            if !place.stat()?.is_some_and(|stat| FileType::from_raw_mode(stat.st_mode).is_symlink()) {
                return Ok(place);
            }
            let target = readlinkat(&place.parent, &place.name, Vec::new())?;
            let target = Path::new(std::ffi::OsStr::from_bytes(target.as_bytes())).to_owned();
            path = path.parent().map_or_else(PathBuf::new, Path::to_owned).join(target);
            accept(&path)?;
        }
        Err(Errno::LOOP.into())
    }

    /// What is there.
    pub(super) fn stat(&self) -> io::Result<Option<Stat>> {
        match statat(&self.parent, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// Whether a path can be one that is meant.
pub(super) fn accept(path: &Path) -> io::Result<()> {
    let bytes = path.as_os_str().as_bytes();
    if bytes.len() >= LONGEST_PATH {
        return Err(Errno::NAMETOOLONG.into());
    }
    if !path.is_absolute() || bytes.contains(&0) {
        return Err(Errno::INVAL.into());
    }
    Ok(())
}

/// Holds what is there without opening it.
pub(super) fn open_path(path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
    accept(path)?;
    Ok(openat2(CWD, path, OFlags::PATH | OFlags::CLOEXEC | flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS)?)
}

/// Opens a regular file, and nothing else: opening a pipe or a device may wait, or do something.
pub(super) fn open_regular(path: &Path, flags: OFlags) -> Result<OwnedFd, Trouble> {
    let held = open_path(path, OFlags::empty())?;
    require_regular(&fstat(&held)?)?;
    // Reading one of these may wait for the process that it is about.
    if fstatfs(&held)?.f_type == PROC_SUPER_MAGIC {
        return Err(Trouble::NotAFile("a file of the kernel"));
    }
    // By its path: over fuse-overlayfs, /proc/self/fd does not lead to it. If it has become something else meanwhile, opening that
    // does not wait either.
    let flags = flags | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_MAGICLINKS)?;
    require_regular(&fstat(&file)?)?;
    if fstatfs(&file)?.f_type == PROC_SUPER_MAGIC {
        return Err(Trouble::NotAFile("a file of the kernel"));
    }
    Ok(file)
}

pub(super) fn require_regular(stat: &Stat) -> Result<(), Trouble> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(()),
        FileType::Directory => Err(Errno::ISDIR.into()),
        FileType::Symlink => Err(Errno::LOOP.into()),
        FileType::Fifo => Err(Trouble::NotAFile("a pipe")),
        FileType::Socket => Err(Trouble::NotAFile("a socket")),
        _ => Err(Trouble::NotAFile("a device")),
    }
}

/// Why something cannot be done.
#[derive(Debug)]
pub(super) enum Trouble {
    Io(io::Error),
    OtherVersion,
    NotAFile(&'static str),
}

impl From<io::Error> for Trouble {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Errno> for Trouble {
    fn from(errno: Errno) -> Self {
        Self::Io(errno.into())
    }
}

impl Trouble {
    pub(super) fn with(&self, path: &Path) -> Failed {
        let (reason, what, errno) = match self {
            Self::Io(error) => (Reason::File, error.to_string(), error.raw_os_error().unwrap_or(0)),
            Self::OtherVersion => (Reason::OtherVersion, "it is of another version".to_owned(), 0),
            Self::NotAFile(what) => (Reason::NotAFile, format!("it is {what}, not a regular file"), 0),
        };
        Failed { reason, message: format!("{}: {what}", path.display()), errno }
    }
}

/// What a change makes another: where the file is, when it was changed last, and how long it is.
pub(super) fn version(stat: &Stat) -> String {
    format!("{:x}-{:x}-{:x}.{:x}-{:x}", stat.st_dev, stat.st_ino, stat.st_ctime, stat.st_ctime_nsec, stat.st_size)
}

pub(super) fn require_version(wanted: Option<&str>, stat: &Stat) -> Result<(), Trouble> {
    if wanted.is_none_or(|wanted| wanted == version(stat)) { Ok(()) } else { Err(Trouble::OtherVersion) }
}

pub(super) fn told(stat: &Stat, link: Option<Text>) -> FileStat {
    FileStat {
        kind: kind(stat),
        mode: stat.st_mode & 0o7777,
        size: stat.st_size.unsigned_abs(),
        uid: stat.st_uid,
        gid: stat.st_gid,
        modified: (stat.st_mtime, stat.st_mtime_nsec as u32),
        version: version(stat),
        link,
    }
}

pub(super) fn kind(stat: &Stat) -> EntryKind {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Directory,
        FileType::Symlink => EntryKind::Link,
        _ => EntryKind::Other,
    }
}
