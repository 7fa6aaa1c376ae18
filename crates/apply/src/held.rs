//! The roots of a plan and the directories beneath them, held open.
//!
//! Every name is used relative to a held directory. How a directory is reached is decided by the kernel in one call that refuses
//! links and mounts on the way, so nobody can lead us elsewhere by exchanging one.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::fs::{CWD, FlockOperation, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use crate::backup::Store;
use crate::error::{ApplyError, Fault, on};
use crate::layout::Spot;
use crate::look::{Seen, look_at};
use crate::turn::Turn;

/// Descriptors for all roots together. A process may have as few as 1024.
const KEPT: usize = 256;

/// While somebody renames directories the kernel cannot tell whether a path stays beneath its root, and asks to try again.
const TRIES: usize = 1000;

#[derive(Debug)]
pub(crate) struct Root {
    pub path: PathBuf,
    pub descriptor: Rc<OwnedFd>,
    pub seen: Seen,
    kept: HashMap<PathBuf, Rc<OwnedFd>>,
    /// Inode of every directory ever held, and its device unless that is only known from a journal: what is opened again must be
    /// the same.
    known: HashMap<PathBuf, (Option<u64>, u64)>,
}

#[derive(Debug)]
pub(crate) struct Held {
    pub roots: Vec<Root>,
}

impl Held {
    /// Opens the roots; no component may be a link.
    pub(crate) fn open(roots: &[PathBuf]) -> Result<Self, Vec<Fault>> {
        let (mut opened, mut faults) = (Vec::new(), Vec::new());
        for path in roots {
            match Root::open(path).map_err(on("open", path)) {
                Ok(root) => opened.push(root),
                Err(fault) => faults.push(fault),
            }
        }
        if faults.is_empty() { Ok(Self { roots: opened }) } else { Err(faults) }
    }

    /// From here on the `old` of a store is one more root, after those of the plan.
    pub(crate) fn add_stage(&mut self, store: &Store) -> Result<(), Fault> {
        let (path, descriptor) = (store.path.join("old"), store.part("old")?);
        let seen = look_at(&descriptor).map_err(on("examine", &path))?;
        self.roots.push(Root { path, descriptor: Rc::new(descriptor), seen, kept: HashMap::new(), known: HashMap::new() });
        Ok(())
    }

    /// That root, once it was added.
    pub(crate) fn stage(&self) -> Option<Rc<OwnedFd>> {
        self.roots.last().map(|root| root.descriptor.clone())
    }

    /// One apply at a time in a root; those of the turn are ours already. The lock goes with us, so a crash cannot leave one
    /// behind.
    pub(crate) fn lock(&self, turn: Option<&Turn>) -> Result<(), ApplyError> {
        let mut locked = Vec::new();
        for root in &self.roots {
            let inode = (root.seen.identity.dev, root.seen.identity.ino);
            if locked.contains(&inode) || turn.is_some_and(|turn| turn.has(inode)) {
                continue;
            }
            match rustix::io::retry_on_intr(|| rustix::fs::flock(&*root.descriptor, FlockOperation::NonBlockingLockExclusive)) {
                Ok(()) => locked.push(inode),
                Err(Errno::WOULDBLOCK) => return Err(ApplyError::Busy { root: root.path.clone() }),
                Err(errno) => return Err(on("lock", &root.path)(errno).into()),
            }
        }
        Ok(())
    }

    /// The directory `path` of a root. `ESTALE` if another one took its place since it was first held.
    pub(crate) fn directory(&mut self, root: usize, path: &Path) -> io::Result<Rc<OwnedFd>> {
        let limit = self.limit();
        let root = self.roots.get_mut(root).ok_or(Errno::NOENT)?;
        if path.as_os_str().is_empty() {
            return Ok(root.descriptor.clone());
        }
        if let Some(held) = root.kept.get(path) {
            return Ok(held.clone());
        }
        root.hold(path, limit)
    }

    /// The same, or `None` if something stands in the way, so that there is no such directory of ours to work in. An error that
    /// says nothing about what is there stays one.
    pub(crate) fn find(&mut self, root: usize, path: &Path) -> io::Result<Option<Rc<OwnedFd>>> {
        match self.directory(root, path) {
            Ok(directory) => Ok(Some(directory)),
            Err(error) if in_the_way(&error).is_some() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The same, but found again from the root instead of remembered. If it is not found it is held all the same: what was done in
    /// it has to be undone in it, wherever it is now.
    pub(crate) fn directory_again(&mut self, root: usize, path: &Path) -> io::Result<Rc<OwnedFd>> {
        let limit = self.limit();
        let root = self.roots.get_mut(root).ok_or(Errno::NOENT)?;
        if path.as_os_str().is_empty() { Ok(root.descriptor.clone()) } else { root.hold(path, limit) }
    }

    fn limit(&self) -> usize {
        (KEPT / self.roots.len().max(1)).max(8)
    }

    /// Only a directory with this inode is the one that is meant.
    pub(crate) fn expect(&mut self, root: usize, path: &Path, ino: u64) {
        if let Some(root) = self.roots.get_mut(root) {
            root.known.entry(path.to_owned()).or_insert((None, ino));
        }
    }

    /// Forgets a directory and what is in it: it was made anew, or is gone.
    pub(crate) fn forget(&mut self, root: usize, path: &Path) {
        if let Some(root) = self.roots.get_mut(root) {
            root.kept.retain(|held, _| !held.starts_with(path));
            root.known.retain(|held, _| !held.starts_with(path));
        }
    }
}

/// Closing is not enough: a process that is just being started by another thread has copies of our descriptors.
impl Drop for Held {
    fn drop(&mut self) {
        for root in &self.roots {
            let _ = rustix::fs::flock(&*root.descriptor, FlockOperation::Unlock);
        }
    }
}

impl Root {
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        if !path.is_absolute() {
            return Err(Errno::INVAL.into());
        }
        let descriptor = persistently(|| {
            rustix::fs::openat2(CWD, path, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS)
        })?;
        let seen = look_at(&descriptor)?;
        Ok(Self { path: path.to_owned(), descriptor: Rc::new(descriptor), seen, kept: HashMap::new(), known: HashMap::new() })
    }

    fn hold(&mut self, path: &Path, limit: usize) -> io::Result<Rc<OwnedFd>> {
        let descriptor = Rc::new(self.resolve(path)?);
        if self.kept.len() >= limit && !self.kept.contains_key(path) {
            self.kept.clear();
        }
        self.kept.insert(path.to_owned(), descriptor.clone());
        Ok(descriptor)
    }

    fn resolve(&mut self, path: &Path) -> io::Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_XDEV;
        let descriptor = persistently(|| rustix::fs::openat2(&*self.descriptor, path, flags, Mode::empty(), beneath))?;
        let identity = look_at(&descriptor)?.identity;
        let (device, inode) = *self.known.entry(path.to_owned()).or_insert((Some(identity.dev), identity.ino));
        if inode != identity.ino || device.is_some_and(|device| device != identity.dev) {
            return Err(Errno::STALE.into());
        }
        Ok(descriptor)
    }
}

fn persistently<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    for _ in 0..TRIES {
        match call() {
            Err(Errno::AGAIN | Errno::INTR) => std::thread::yield_now(),
            other => return Ok(other?),
        }
    }
    Err(Errno::AGAIN.into())
}

/// The directory of a spot, or what stands in the way, in words that follow the path.
pub(crate) fn directory_of(held: &mut Held, spot: &Spot, path: &Path) -> Result<Rc<OwnedFd>, Fault> {
    held.directory(spot.root, &spot.directory).map_err(|error| explain(error, path))
}

pub(crate) fn explain(error: io::Error, path: &Path) -> Fault {
    match in_the_way(&error) {
        Some(why) => Fault::changed(path, why),
        None => on("reach", path)(error),
    }
}

/// What it means that a directory cannot be resolved.
pub(crate) fn in_the_way(error: &io::Error) -> Option<&'static str> {
    Some(match Errno::from_io_error(error)? {
        Errno::LOOP => "lies behind a link",
        Errno::NOTDIR => "lies in something that is no directory",
        Errno::XDEV => "lies on another mount than its root",
        Errno::NOENT => "lies in a directory that does not exist",
        Errno::STALE => "lies in a directory that was exchanged for another",
        Errno::AGAIN => "lies in a directory that is being renamed all the time",
        _ => return None,
    })
}
