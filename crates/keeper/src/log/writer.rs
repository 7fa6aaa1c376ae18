//! The keeper's side: takes everything, whatever the disk says.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::{HEADER_LENGTH, Header, LARGEST_FILE};

/// After the disk was full, writing goes on when it has this much room again: going on gives up the older file.
const ROOM_TO_GO_ON: u64 = 256 << 10;

#[derive(Debug)]
pub struct Writer {
    pub(super) files: [File; 2],
    current: usize,
    /// Whether the current file has its header.
    has_begun: bool,
    /// Where in the stream the other file begins, if it holds anything.
    older_start: Option<u64>,
    /// Where in the stream the current file begins, what it holds, and what was dropped after that.
    start: u64,
    length: u64,
    dropped: u64,
    most: u64,
}

impl Writer {
    /// Over two files that nobody else writes to and that are not open for appending. The first one is begun at once.
    #[must_use]
    pub fn new(files: [File; 2]) -> Self {
        Self::with_files_of(LARGEST_FILE, files)
    }

    /// The same with files of at most this size.
    #[must_use]
    pub fn with_files_of(largest: u64, files: [File; 2]) -> Self {
        let most = largest.saturating_sub(HEADER_LENGTH as u64).max(1);
        let mut writer = Self { files, current: 0, has_begun: false, older_start: None, start: 0, length: 0, dropped: 0, most };
        writer.begin_next();
        writer
    }

    /// Never fails and never waits for room: what cannot be kept is dropped and counted.
    pub fn write(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let needs_next = !self.has_begun || self.dropped > 0 || self.length >= self.most;
            if needs_next && !(self.may_go_on() && self.begin_next()) {
                return self.drop_output(bytes.len());
            }
            let fitting = bytes.len().min(usize::try_from(self.most.saturating_sub(self.length)).unwrap_or(usize::MAX));
            match self.files[self.current].write_at(&bytes[..fitting], HEADER_LENGTH as u64 + self.length) {
                Ok(0) => return self.drop_output(bytes.len()),
                Ok(written) => {
                    self.length += written as u64;
                    bytes = &bytes[written..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => return self.drop_output(bytes.len()),
            }
        }
    }

    /// Where the stream ends so far.
    #[must_use]
    pub fn end(&self) -> u64 {
        self.start + self.length + self.dropped
    }

    /// Where what is kept of the stream begins.
    #[must_use]
    pub fn first(&self) -> u64 {
        self.older_start.unwrap_or(self.start)
    }

    /// How much can be written before something after `taken` is given up.
    #[must_use]
    pub fn room_beside(&self, taken: u64) -> u64 {
        let left = if self.has_begun && self.dropped == 0 { self.most.saturating_sub(self.length) } else { 0 };
        // The next file is emptied first, and holds what was before the current one.
        if taken < self.start { left } else { left.saturating_add(self.most) }
    }

    /// From here on nothing is given up. Only for a stream that is about to end: its file may become larger than others.
    pub fn keep_all(&mut self) {
        self.most = u64::MAX;
    }

    fn may_go_on(&self) -> bool {
        let has_room = |file: &File| {
            // A file system without a bound has no blocks to count.
            rustix::fs::fstatvfs(file).is_ok_and(|s| s.f_blocks == 0 || s.f_bavail.saturating_mul(s.f_frsize) >= ROOM_TO_GO_ON)
        };
        self.dropped == 0 || has_room(&self.files[self.current])
    }

    /// Empties the file whose turn it is and goes on there. What cannot be begun leaves everything where it was.
    fn begin_next(&mut self) -> bool {
        let next = if self.has_begun { 1 - self.current } else { self.current };
        let start = self.end();
        let file = &self.files[next];
        let header = Header { start, dropped: 0 };
        if file.set_len(0).and_then(|()| file.write_all_at(header.to_line().as_bytes(), 0)).is_err() {
            return false;
        }
        self.older_start = (next != self.current).then_some(self.start);
        (self.current, self.has_begun, self.start, self.length, self.dropped) = (next, true, start, 0, 0);
        true
    }

    fn drop_output(&mut self, length: usize) {
        self.dropped += length as u64;
        if self.has_begun {
            // In place, which needs no room.
            let header = Header { start: self.start, dropped: self.dropped };
            let _ = self.files[self.current].write_all_at(header.to_line().as_bytes(), 0);
        }
    }
}
