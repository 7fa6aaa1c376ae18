//! Pipes through which bytes pass from socket to socket without a copy. A pipe is borrowed only while bytes are in it, so a few
//! serve thousands of connections.

use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::pipe::{PipeFlags, fcntl_setpipe_size, pipe_with};

/// So many in use at once; whoever comes then copies. All pipes of a user together have 64 MiB before the kernel makes them small,
/// and there are other sandboxes and other programs.
const MOST: usize = 32;
/// So many are kept for later.
const MOST_KEPT: usize = 8;
/// The usual 64 KiB would take several times as many system calls for the same bytes.
pub(crate) const CAPACITY: usize = 512 << 10;

#[derive(Debug, Default)]
pub(crate) struct Pipes {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    free: Vec<Pipe>,
    made: usize,
}

#[derive(Debug)]
pub(crate) struct Pipe {
    pub(crate) read: OwnedFd,
    pub(crate) write: OwnedFd,
}

/// An empty pipe. Given back with [`Borrowed::give_back`]; one that is only dropped may have bytes in it and is closed.
#[derive(Debug)]
pub(crate) struct Borrowed<'a> {
    pipe: Option<Pipe>,
    pipes: &'a Pipes,
}

impl Pipes {
    /// `None` when all are in use or none can be made.
    pub(crate) fn borrow(&self) -> Option<Borrowed<'_>> {
        let mut state = self.state();
        if let Some(pipe) = state.free.pop() {
            return Some(Borrowed { pipe: Some(pipe), pipes: self });
        }
        if state.made >= MOST {
            return None;
        }
        let (read, write) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK).ok()?;
        // A user with many pipes gets small ones, which do as well.
        let _ = fcntl_setpipe_size(&write, CAPACITY);
        state.made += 1;
        Some(Borrowed { pipe: Some(Pipe { read, write }), pipes: self })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Borrowed<'_> {
    pub(crate) fn ends(&self) -> Option<(&OwnedFd, &OwnedFd)> {
        self.pipe.as_ref().map(|pipe| (&pipe.read, &pipe.write))
    }

    /// Only with nothing left in it.
    pub(crate) fn give_back(mut self) {
        let mut state = self.pipes.state();
        if state.free.len() < MOST_KEPT
            && let Some(pipe) = self.pipe.take()
        {
            state.free.push(pipe);
        }
    }
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        if self.pipe.take().is_some() {
            self.pipes.state().made -= 1;
        }
    }
}
