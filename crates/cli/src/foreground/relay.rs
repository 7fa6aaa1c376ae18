//! Copies bytes from one descriptor to another without ever making either side wait for a third.

use std::cell::RefCell;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::rc::Rc;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, SeekFrom, Stat, fstat, seek};
use rustix::io::{Errno, fcntl_dupfd_cloexec};

/// Where relayed bytes go.
#[derive(Debug)]
pub(super) enum Sink {
    Descriptor(OwnedFd),
    /// Kept for a JSON document, up to a limit.
    Memory(Rc<RefCell<Vec<u8>>>),
}

#[derive(Debug)]
pub(super) struct Relay {
    from: Option<OwnedFd>,
    to: Option<Sink>,
    waiting: Vec<u8>,
    /// Input relays are dropped at the end; output relays are emptied.
    is_output: bool,
    unread: Option<Unread>,
    /// The last byte that was written, and when.
    last: Option<(Instant, u8)>,
    /// It goes to the terminal or file that our standard error is.
    is_among_notes: bool,
}

/// What tells how much of its input a command has not read.
#[derive(Debug)]
struct Unread {
    /// The command's end of the pipe. As long as it is open here, writing to a command that reads no more is no error.
    pipe: OwnedFd,
    /// If it is a file. It is shared with our caller, for whom a script's next line may be in it.
    file: Option<OwnedFd>,
}

/// More than this of a command's output is not kept in a document.
pub(super) const LARGEST_CAPTURE: usize = 16 << 20;

/// As much as a pipe holds.
const MOST_AT_ONCE: usize = 64 << 10;

impl Relay {
    pub(super) fn input(from: OwnedFd, to: OwnedFd) -> Self {
        // The command may never read; then our writing must not wait.
        let _ = rustix::io::ioctl_fionbio(&to, true);
        Self {
            from: Some(from),
            to: Some(Sink::Descriptor(to)),
            waiting: Vec::new(),
            is_output: false,
            unread: None,
            last: None,
            is_among_notes: false,
        }
    }

    /// Input through a pipe. Of a file, the command takes only what it reads.
    pub(super) fn input_through(from: OwnedFd, (read, write): (BorrowedFd<'_>, OwnedFd)) -> rustix::io::Result<Self> {
        let is_file = fstat(&from).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_file());
        let file = is_file.then(|| fcntl_dupfd_cloexec(&from, 0)).transpose()?;
        let unread = Some(Unread { pipe: fcntl_dupfd_cloexec(read, 0)?, file });
        Ok(Self { unread, ..Self::input(from, write) })
    }

    pub(super) fn output(from: OwnedFd, to: Sink) -> Self {
        let _ = rustix::io::ioctl_fionbio(&from, true);
        let is_among_notes = matches!(&to, Sink::Descriptor(to) if is_same_file(to, rustix::stdio::stderr()));
        Self { from: Some(from), to: Some(to), waiting: Vec::new(), is_output: true, unread: None, last: None, is_among_notes }
    }

    pub(super) fn poll_fd(&self) -> Option<PollFd<'_>> {
        match (&self.from, &self.to) {
            (_, Some(Sink::Descriptor(to))) if !self.waiting.is_empty() => Some(PollFd::new(to, PollFlags::OUT)),
            (Some(from), Some(_)) => Some(PollFd::new(from, PollFlags::IN)),
            _ => None,
        }
    }

    /// Does what can be done now.
    pub(super) fn work(&mut self) {
        if self.waiting.is_empty() && self.from.as_ref().is_some_and(is_readable) {
            self.read();
        }
        self.write();
        // The end of the input is passed on by closing the other side.
        if self.from.is_none() && self.waiting.is_empty() {
            self.to = None;
        }
    }

    /// After the command's end: what it has written comes out, what it did not read of a file is there for the next reader.
    pub(super) fn drain(&mut self) {
        if !self.is_output {
            self.put_back();
            return;
        }
        self.write_all();
        while self.from.is_some() && self.read() {
            self.write_all();
        }
    }

    /// The last byte that this wrote to where our own notes go, and when.
    pub(super) fn last_among_notes(&self) -> Option<(Instant, u8)> {
        self.last.filter(|_| self.is_among_notes)
    }

    fn put_back(&mut self) {
        let Some(Unread { pipe, file: Some(file) }) = self.unread.take() else { return };
        let in_pipe = rustix::io::ioctl_fionread(&pipe).unwrap_or(0);
        if let Ok(unread @ 1..) = i64::try_from(in_pipe + self.waiting.len() as u64) {
            // A file that has no position to go back to has no next reader who would miss it.
            let _ = seek(&file, SeekFrom::Current(-unread));
        }
    }

    /// False when there is nothing more for now.
    fn read(&mut self) -> bool {
        let Some(from) = &self.from else { return false };
        // Nothing of it is touched before there is something to read.
        self.waiting.reserve(MOST_AT_ONCE);
        match rustix::io::read(from, rustix::buffer::spare_capacity(&mut self.waiting)) {
            Ok(length) if length > 0 => true,
            Err(Errno::AGAIN | Errno::INTR) => false,
            // The end; a terminal whose last user is gone says EIO.
            _ => {
                self.from = None;
                false
            }
        }
    }

    fn write(&mut self) {
        if self.waiting.is_empty() {
            return;
        }
        match &self.to {
            Some(Sink::Descriptor(to)) => match rustix::io::write(to, &self.waiting) {
                Ok(written) => {
                    self.last = self.waiting[..written].last().map(|byte| (Instant::now(), *byte)).or(self.last);
                    self.waiting.drain(..written);
                }
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(errno) => {
                    if self.is_output && errno != Errno::PIPE {
                        crate::output::lost_output();
                    }
                    self.give_up();
                }
            },
            Some(Sink::Memory(memory)) => {
                let mut memory = memory.borrow_mut();
                let room = LARGEST_CAPTURE.saturating_sub(memory.len());
                memory.extend_from_slice(&self.waiting[..self.waiting.len().min(room)]);
                self.waiting.clear();
            }
            None => self.waiting.clear(),
        }
    }

    fn write_all(&mut self) {
        while !self.waiting.is_empty() {
            if let Some(Sink::Descriptor(to)) = &self.to {
                let _ = poll(&mut [PollFd::new(to, PollFlags::OUT)], None);
            }
            self.write();
        }
    }

    /// Nobody takes it any more; closing our side tells whoever sends it.
    fn give_up(&mut self) {
        self.waiting.clear();
        self.to = None;
        self.from = None;
    }
}

fn is_same_file(one: impl AsFd, other: impl AsFd) -> bool {
    let place = |stat: Stat| (stat.st_dev, stat.st_ino);
    fstat(one).ok().map(place).is_some_and(|one| fstat(other).ok().map(place) == Some(one))
}

fn is_readable(fd: &OwnedFd) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&now)).is_ok_and(|n| n > 0)
}
