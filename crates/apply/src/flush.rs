//! Gets things onto the disk: one by one if they are few, whole file systems if not.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, retry_on_intr};

use crate::backup::Store;
use crate::error::{Fault, on};
use crate::held::Held;

/// Up to here single flushes are quicker, and do not make us wait for what others have written.
pub(crate) const FEW: usize = 32;

/// Flushes a directory that is held by an `O_PATH` descriptor. `false` if it cannot be opened for that.
pub(crate) fn directory(descriptor: impl AsFd) -> io::Result<bool> {
    entry(descriptor, ".", OFlags::DIRECTORY)
}

/// Flushes an entry. `false` if it cannot be opened for that.
pub(crate) fn entry(directory: impl AsFd, name: impl rustix::path::Arg + Copy, kind: OFlags) -> io::Result<bool> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | kind;
    match retry_on_intr(|| rustix::fs::openat(&directory, name, flags, Mode::empty())) {
        Ok(opened) => file(&opened).map(|()| true),
        Err(Errno::ACCESS | Errno::PERM | Errno::LOOP | Errno::NXIO) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

pub(crate) fn file(opened: &OwnedFd) -> io::Result<()> {
    match retry_on_intr(|| rustix::fs::fsync(opened)) {
        // Some file systems have nothing to flush.
        Ok(()) | Err(Errno::INVAL) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// Flushes every file system that the apply works on.
pub(crate) fn everything(held: &Held, store: &Store) -> Result<(), Fault> {
    let mut flushed = Vec::new();
    let roots = held.roots.iter().map(|r| (&*r.descriptor, &r.seen, &r.path));
    for (descriptor, seen, path) in roots.chain([(&store.descriptor, &store.seen, &store.path)]) {
        if !flushed.contains(&seen.identity.dev) {
            rustix::fs::syncfs(descriptor).map_err(on("flush", path))?;
            flushed.push(seen.identity.dev);
        }
    }
    Ok(())
}
