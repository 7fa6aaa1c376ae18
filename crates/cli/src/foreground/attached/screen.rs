//! Where the output goes: to standard output, without ever keeping us from anything else, or into a document.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, fstat};
use rustix::io::Errno;
use rustix::stdio::stdout;

use crate::foreground::relay::LARGEST_CAPTURE;

/// Read at a time.
const CHUNK: usize = 256 << 10;
/// What a pipe takes without making us wait once it says that it takes something.
const SURE: usize = 4096;

pub(super) struct Screen {
    buffer: Vec<u8>,
    /// What of it waits to be written.
    begin: usize,
    end: usize,
    is_kept: bool,
    /// A file never makes us wait for long.
    is_file: bool,
    pub kept: Vec<u8>,
    pub is_truncated: bool,
}

impl Screen {
    pub(super) fn new(is_kept: bool) -> Self {
        let is_file = fstat(stdout()).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_file());
        Self { buffer: vec![0; CHUNK], begin: 0, end: 0, is_kept, is_file, kept: Vec::new(), is_truncated: false }
    }

    /// How much waits to be written.
    pub(super) fn waiting(&self) -> usize {
        self.end - self.begin
    }

    /// For the next part; only when nothing waits.
    pub(super) fn room(&mut self) -> &mut [u8] {
        (self.begin, self.end) = (0, 0);
        &mut self.buffer
    }

    pub(super) fn is_filled(&mut self, length: usize) {
        self.end = length;
    }

    pub(super) fn poll_fd(&self) -> Option<PollFd<'_>> {
        (self.waiting() > 0).then(|| PollFd::from_borrowed_fd(stdout(), PollFlags::OUT))
    }

    /// Writes what can be written now. True when something was waiting and nothing is any more.
    pub(super) fn write(&mut self) -> rustix::io::Result<bool> {
        if self.waiting() == 0 {
            return Ok(false);
        }
        if self.is_kept {
            let room = LARGEST_CAPTURE.saturating_sub(self.kept.len()).min(self.waiting());
            self.is_truncated |= room < self.waiting();
            self.kept.extend_from_slice(&self.buffer[self.begin..self.begin + room]);
            self.begin = self.end;
        }
        while self.waiting() > 0 && takes_more() {
            let most = if self.is_file { CHUNK } else { SURE };
            let end = self.end.min(self.begin + most);
            match rustix::io::write(stdout(), &self.buffer[self.begin..end]) {
                Ok(written) => self.begin += written,
                Err(Errno::AGAIN | Errno::INTR) => break,
                Err(errno) => return Err(errno),
            }
        }
        Ok(self.waiting() == 0)
    }
}

fn takes_more() -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::from_borrowed_fd(stdout(), PollFlags::OUT)], Some(&now)).is_ok_and(|ready| ready > 0)
}
