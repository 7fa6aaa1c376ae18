//! A directory that is held, and everything beneath it by paths that the kernel does not let lead out of it.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags};

use crate::error::{ArchiveError, on};
use crate::names;

#[derive(Debug)]
pub(crate) struct Beneath {
    path: PathBuf,
    root: OwnedFd,
    /// The directory that was asked for last: entries come directory by directory.
    held: Option<(Vec<u8>, OwnedFd)>,
}

impl Beneath {
    pub(crate) fn open(path: &Path) -> Result<Self, ArchiveError> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::openat(CWD, path, flags, Mode::empty()).map_err(on("open", path))?;
        Ok(Self { path: path.to_owned(), root, held: None })
    }

    /// For messages only.
    pub(crate) fn full_path(&self, path: &[u8]) -> PathBuf {
        if path.is_empty() { self.path.clone() } else { self.path.join(OsStr::from_bytes(path)) }
    }

    /// The directory at a path; the empty one is the root.
    pub(crate) fn directory(&mut self, path: &[u8]) -> Result<&OwnedFd, ArchiveError> {
        if path.is_empty() {
            return Ok(&self.root);
        }
        let descriptor = match self.held.take() {
            Some((held, descriptor)) if held == path => descriptor,
            _ => self.resolve(path, OFlags::RDONLY | OFlags::DIRECTORY).map_err(on("open", &self.full_path(path)))?,
        };
        Ok(&self.held.insert((path.to_owned(), descriptor)).1)
    }

    /// The directory that something lies in, and its name there.
    pub(crate) fn place<'p>(&mut self, path: &'p [u8]) -> Result<(&OwnedFd, &'p OsStr), ArchiveError> {
        let (directory, name) = names::split(path);
        Ok((self.directory(directory)?, OsStr::from_bytes(name)))
    }

    /// Opens something without following anything: no link on the way, none at the end, no other mount.
    pub(crate) fn resolve(&self, path: &[u8], flags: OFlags) -> rustix::io::Result<OwnedFd> {
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::io::retry_on_intr(|| rustix::fs::openat2(&self.root, OsStr::from_bytes(path), flags, Mode::empty(), beneath))
    }
}
