//! What attached clients type, on its way to a terminal whose output the keeper reads itself.
//!
//! A client beyond a stream cannot have the terminal: whatever carries it would read from it too. It gets a pipe instead.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};

/// Taken from the pipe at a time. The rest waits there.
const MOST_PENDING: usize = 4 << 10;

pub(super) struct Typed {
    from: OwnedFd,
    /// Our end of the pipe that whoever attaches gets. It never ends with one of them.
    given: OwnedFd,
    terminal: OwnedFd,
    pending: Vec<u8>,
}

impl Typed {
    /// For a terminal that does not wait.
    pub(super) fn new(terminal: &OwnedFd) -> io::Result<Self> {
        let (from, given) = pipe_with(PipeFlags::CLOEXEC)?;
        rustix::io::ioctl_fionbio(&from, true)?;
        Ok(Self { from, given, terminal: terminal.try_clone()?, pending: Vec::new() })
    }

    pub(super) fn poll_fd(&self) -> PollFd<'_> {
        match self.pending.is_empty() {
            true => PollFd::from_borrowed_fd(self.from.as_fd(), PollFlags::IN),
            false => PollFd::from_borrowed_fd(self.terminal.as_fd(), PollFlags::OUT),
        }
    }

    /// For whoever attaches.
    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.given.as_fd()
    }

    /// Moves what can be moved now.
    pub(super) fn work(&mut self) {
        loop {
            if self.pending.is_empty() {
                let mut buffer = [0; MOST_PENDING];
                match rustix::io::read(&self.from, &mut buffer) {
                    Ok(length @ 1..) => self.pending.extend_from_slice(&buffer[..length]),
                    Ok(0) | Err(_) => return,
                }
            }
            match rustix::io::write(&self.terminal, &self.pending) {
                Ok(written) => drop(self.pending.drain(..written)),
                Err(Errno::INTR | Errno::WOULDBLOCK) => return,
                // Nobody is there to read it.
                Err(_) => self.pending.clear(),
            }
        }
    }
}
