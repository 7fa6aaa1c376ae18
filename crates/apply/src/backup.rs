//! Where earlier versions are kept: `old/<n>` in the directory of an apply, `n` being the number of the operation. What could
//! not be put in its place lies in `unapplied/<n>`.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, RenameFlags};
use rustix::io::Errno;

use crate::attributes::{self, settle, settle_link};
use crate::content::{Copier, create_file, open_file};
use crate::error::{Fault, on};
use crate::look::{Seen, look, look_at};
use crate::plan::Kind;
use crate::unmanaged::Unmanaged;

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

#[derive(Debug)]
pub(crate) struct Store {
    pub path: PathBuf,
    pub descriptor: OwnedFd,
    pub seen: Seen,
}

impl Store {
    pub(crate) fn open(path: &Path) -> Result<Self, Fault> {
        let descriptor = rustix::fs::open(path, DIRECTORY, Mode::empty()).map_err(on("open", path))?;
        let seen = look_at(&descriptor).map_err(on("examine", path))?;
        Ok(Self { path: path.to_owned(), descriptor, seen })
    }

    /// Whether what lies in that directory can be renamed into this one. The same device is not enough: two mounts of it are two.
    pub(crate) fn takes(&self, parent: &Seen) -> bool {
        parent.identity.dev == self.seen.identity.dev && parent.mount.is_some() && parent.mount == self.seen.mount
    }

    /// A directory of it, made if it is not there.
    pub(crate) fn part(&self, name: &str) -> Result<OwnedFd, Fault> {
        let path = self.path.join(name);
        match rustix::fs::mkdirat(&self.descriptor, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(on("create", &path)(errno)),
        }
        rustix::fs::openat(&self.descriptor, name, DIRECTORY, Mode::empty()).map_err(on("open", &path))
    }

    /// Where the earlier version of an operation lies.
    pub(crate) fn old(&self, n: usize) -> PathBuf {
        self.path.join("old").join(n.to_string())
    }

    pub(crate) fn has_old(&self, n: usize) -> Result<bool, Fault> {
        let path = self.old(n);
        Ok(look(CWD, &path).map_err(on("examine", &path))?.is_some())
    }
}

/// Takes an entry out of reality and keeps it as `kept/<n>`.
pub(crate) fn move_out(directory: &OwnedFd, name: &OsStr, kept: &OwnedFd, n: usize) -> io::Result<()> {
    match rustix::fs::renameat_with(directory, name, kept, n.to_string(), RenameFlags::NOREPLACE) {
        Ok(()) => Ok(()),
        // Two mounts, or two quotas, of one file system. The copy gets its name when it is whole.
        Err(Errno::XDEV) => {
            let partial = OsString::from(format!("{n}.part"));
            remove_tree(kept, &partial)?;
            copy_entry(&mut Copier::new(), directory, name, kept, &partial)?;
            rustix::fs::syncfs(kept)?;
            rustix::fs::renameat(kept, &partial, kept, n.to_string())?;
            remove_tree(directory, name)
        }
        Err(errno) => Err(errno.into()),
    }
}

/// Copies an entry with all its attributes; a directory with everything in it.
pub(crate) fn copy_entry(copier: &mut Copier<'_>, from: &OwnedFd, name: &OsStr, to: &OwnedFd, new: &OsStr) -> io::Result<()> {
    let seen = look(from, name)?.ok_or(Errno::NOENT)?;
    match seen.identity.kind {
        Kind::File => {
            let (source, target) = (open_file(from, name)?, create_file(to, new)?);
            // What the other file system cannot keep stays with the version that takes its place.
            Unmanaged::of(from, name)?.give(&target)?;
            copier.copy(&source, &target, look_at(&target)?.identity.dev)?;
            settle(&target, &look_at(&source)?.identity.attributes(attributes::xattrs(&source)?))
        }
        Kind::Link => {
            let leads = rustix::fs::readlinkat(from, name, Vec::new())?;
            rustix::fs::symlinkat(leads.as_c_str(), to, new)?;
            settle_link(to, new, &seen.identity.attributes(Vec::new()))
        }
        Kind::Directory => {
            rustix::fs::mkdirat(to, new, Mode::RWXU)?;
            let source = rustix::fs::openat(from, name, DIRECTORY, Mode::empty())?;
            let target = rustix::fs::openat(to, new, DIRECTORY, Mode::empty())?;
            for inner in names_in(from, name)? {
                copy_entry(copier, &source, &inner, &target, &inner)?;
            }
            settle(&target, &seen.identity.attributes(attributes::xattrs(&source)?))
        }
        Kind::Other => Err(Errno::OPNOTSUPP.into()),
    }
}

/// Removes what is ours alone: something under one of our names, in our directory or with our random name.
pub(crate) fn remove_tree(directory: &OwnedFd, name: &OsStr) -> io::Result<()> {
    match rustix::fs::unlinkat(directory, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => {
            let inner = rustix::fs::openat(directory, name, DIRECTORY, Mode::empty())?;
            for name in names_in(directory, name)? {
                remove_tree(&inner, &name)?;
            }
            Ok(rustix::fs::unlinkat(directory, name, AtFlags::REMOVEDIR)?)
        }
        Err(errno) => Err(errno.into()),
    }
}

/// What is in a directory, without `.` and `..`.
pub(crate) fn names_in(parent: impl AsFd, name: &OsStr) -> io::Result<Vec<OsString>> {
    let directory = rustix::fs::openat(parent, name, DIRECTORY, Mode::empty())?;
    let mut names = Vec::new();
    for entry in Dir::new(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(OsStr::from_bytes(name).to_owned());
        }
    }
    Ok(names)
}
