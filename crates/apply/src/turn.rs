//! The lock that lets one apply at a time work in a tree, held from before the plan is made until all is written down.

use std::io;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::FlockOperation;
use rustix::io::{Errno, retry_on_intr};

use crate::check::open_held;
use crate::error::{ApplyError, Fault, on};
use crate::held::{Held, Root, in_the_way};

/// How often the caller is asked whether it still wants to wait.
const INTERVAL: Duration = Duration::from_millis(50);

/// The roots that are ours. Dropping it lets the next one in.
#[derive(Debug)]
pub struct Turn {
    /// Gives the locks back when it goes.
    held: Held,
}

impl Turn {
    /// Waits for every root in the order in which applies came. `goes_on` is asked now and then; `false` ends the wait with
    /// [`ApplyError::Cancelled`]. After `patience` it is [`ApplyError::Busy`].
    pub fn wait(roots: &[PathBuf], patience: Duration, goes_on: &mut dyn FnMut() -> bool) -> Result<Self, ApplyError> {
        let deadline = Instant::now() + patience;
        let held = open_held(roots)?;
        let mut locked = Vec::new();
        for root in &held.roots {
            // One directory by two names is one lock.
            if !locked.contains(&inode(root)) {
                take(root, deadline, goes_on)?;
                locked.push(inode(root));
            }
        }
        Ok(Self { held })
    }

    /// By device and inode.
    pub(crate) fn has(&self, directory: (u64, u64)) -> bool {
        self.held.roots.iter().any(|root| inode(root) == directory)
    }

    /// Whether any of these directories is one of the locked ones. One that is gone is none of them.
    pub fn covers_any(&self, roots: &[PathBuf]) -> Result<bool, ApplyError> {
        for root in roots {
            match Root::open(root) {
                Ok(root) if self.has(inode(&root)) => return Ok(true),
                Ok(_) => {}
                Err(error) if in_the_way(&error).is_some() || error.kind() == io::ErrorKind::PermissionDenied => {}
                Err(error) => return Err(on("open", root)(error).into()),
            }
        }
        Ok(false)
    }
}

fn inode(root: &Root) -> (u64, u64) {
    (root.seen.identity.dev, root.seen.identity.ino)
}

fn take(root: &Root, deadline: Instant, goes_on: &mut dyn FnMut() -> bool) -> Result<(), ApplyError> {
    let failed = |errno: Errno| ApplyError::from(on("lock", &root.path)(errno));
    match retry_on_intr(|| rustix::fs::flock(&*root.descriptor, FlockOperation::NonBlockingLockExclusive)) {
        Ok(()) => return Ok(()),
        Err(Errno::WOULDBLOCK) => {}
        Err(errno) => return Err(failed(errno)),
    }
    // The kernel serves those who wait in their order, but knows no deadline. So a thread waits, on the same open file. If it is
    // given up, the lock it may still get goes with the last descriptor.
    let waiting = root.descriptor.try_clone().map_err(on("lock", &root.path))?;
    let (sender, receiver) = mpsc::channel();
    let wait = move || sender.send(retry_on_intr(|| rustix::fs::flock(&waiting, FlockOperation::LockExclusive)));
    thread::Builder::new().spawn(wait).map_err(on("wait for", &root.path))?;
    loop {
        match receiver.recv_timeout(INTERVAL) {
            Ok(outcome) => return outcome.map_err(failed),
            Err(mpsc::RecvTimeoutError::Disconnected) => return Err(failed(Errno::NOLCK)),
            Err(mpsc::RecvTimeoutError::Timeout) if !goes_on() => return Err(Fault::Cancelled.into()),
            Err(mpsc::RecvTimeoutError::Timeout) if Instant::now() >= deadline => {
                return Err(ApplyError::Busy { root: root.path.clone() });
            }
            Err(mpsc::RecvTimeoutError::Timeout) => {}
        }
    }
}
