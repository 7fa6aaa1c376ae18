//! The way of a detached command's output from its pipe into its log.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use crate::log::Writer;

/// Moved at a time, so that a command that never pauses does not keep the keeper from everything else. A pipe holds 1 MiB at most;
/// what a command wrote before it ended is moved in one go.
const MOST_AT_ONCE: usize = 2 << 20;

pub(super) struct Log {
    from: OwnedFd,
    to: Writer,
}

impl Log {
    pub(super) fn new(from: OwnedFd, files: [File; 2]) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&from, true)?;
        Ok(Self { from, to: Writer::new(files) })
    }

    pub(super) fn source(&self) -> BorrowedFd<'_> {
        self.from.as_fd()
    }

    /// Moves what has arrived; false at the end of the output.
    pub(super) fn pump(&mut self) -> bool {
        let mut buffer = [0_u8; 64 << 10];
        let mut moved = 0;
        while moved < MOST_AT_ONCE {
            match rustix::io::read(&self.from, &mut buffer) {
                Ok(0) => return false,
                Ok(length) => {
                    self.to.write(&buffer[..length]);
                    moved += length;
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => return true,
                Err(_) => return false,
            }
        }
        true
    }
}
