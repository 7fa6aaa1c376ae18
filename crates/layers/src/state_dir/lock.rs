//! Locks of sandboxes: whoever changes one, and the keeper that runs it.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FlockOperation, XattrFlags};
use whatif_sys::absence::{self, OrAbsent};

use super::NOTE_ATTRIBUTE;
use crate::{PathError, on};

/// Held by the keeper of a sandbox as long as it lives, whatever becomes of its socket.
#[derive(Debug)]
pub struct AliveLock {
    directory: File,
}

impl AliveLock {
    /// Takes the lock for a new keeper. `None`: another keeper lives.
    pub fn take(sandbox: &Path) -> Result<Option<Self>, PathError> {
        Ok(SandboxLock::take(&sandbox.join("work"))?.map(|lock| Self { directory: lock.directory }))
    }

    /// Whether a keeper lives over this directory.
    pub fn is_held(sandbox: &Path) -> Result<bool, PathError> {
        let work = sandbox.join("work");
        // In this order: one that goes in between is held by nobody.
        Ok(SandboxLock::take(&work)?.is_none() && absence::is_dir(&work).map_err(on("examine", &work))?)
    }
}

impl AsFd for AliveLock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

/// Whoever holds this may change the sandbox; it ends with the process, however that ends.
#[derive(Debug)]
pub struct SandboxLock {
    pub(crate) directory: File,
}

impl AsFd for SandboxLock {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

impl SandboxLock {
    /// Takes the lock if nobody holds it.
    pub fn take(directory: &Path) -> Result<Option<Self>, PathError> {
        Self::lock(directory, FlockOperation::NonBlockingLockExclusive)
    }

    /// Takes it together with others, if nobody has it alone.
    pub fn share(directory: &Path) -> Result<Option<Self>, PathError> {
        Self::lock(directory, FlockOperation::NonBlockingLockShared)
    }

    /// Waits until the lock is free.
    pub fn wait(directory: &Path) -> Result<Option<Self>, PathError> {
        Self::lock(directory, FlockOperation::LockExclusive)
    }

    /// Writes a file that is locked before anybody else can find it by another name.
    pub(crate) fn on_new_file(path: &Path, text: &[u8]) -> Result<Self, PathError> {
        let file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
        let mut file = file.map_err(on("create", path))?;
        file.write_all(text).map_err(on("write", path))?;
        // Without attributes the bytes themselves have to be on the disk before anything that they announce.
        if rustix::fs::fsetxattr(&file, NOTE_ATTRIBUTE, text, XattrFlags::empty()).is_err() {
            file.sync_all().map_err(on("flush", path))?;
        }
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(on("lock", path))?;
        Ok(Self { directory: file })
    }

    fn lock(directory: &Path, operation: FlockOperation) -> Result<Option<Self>, PathError> {
        loop {
            let Some(file) = File::open(directory).or_absent().map_err(on("open", directory))? else { return Ok(None) };
            match rustix::fs::flock(&file, operation) {
                // Its last holder may have moved it away in between: then look at what is there now.
                Ok(()) if !leads_to(directory, &file).map_err(on("examine", directory))? => {}
                Ok(()) => return Ok(Some(Self { directory: file })),
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
                Err(errno) => return Err(on("lock", directory)(errno)),
            }
        }
    }
}

fn leads_to(path: &Path, file: &File) -> io::Result<bool> {
    let (opened, now) = (file.metadata()?, fs::metadata(path).or_absent()?);
    Ok(now.is_some_and(|now| (now.dev(), now.ino()) == (opened.dev(), opened.ino())))
}
