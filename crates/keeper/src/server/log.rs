//! The way of a detached command's output from its pipe or terminal into its log, and those who read it there as it comes.
//!
//! While nobody is attached everything is taken at once and the oldest is given up. An attached client reads the log itself and says
//! how far it is; what it has not read is not given up, so when the log is full of that, the command waits. A client that
//! leaves, in whatever way, is waited for no longer. Nothing here ever waits.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use whatif_types::CommandId;

use super::connections::Connections;
use crate::log::{Writer, record};
use crate::protocol::{Exited, Finished, Reply};

/// Moved at a time, so that a command that never pauses does not keep the keeper from everything else. A pipe holds 1 MiB at most;
/// what a command wrote before it ended is moved in one go.
const MOST_AT_ONCE: usize = 2 << 20;

pub(super) struct Log {
    pub id: Option<CommandId>,
    /// Until the end of the output.
    from: Option<OwnedFd>,
    /// The command's side of its terminal. While it is open, a command that closes its own can open it again.
    side: Option<OwnedFd>,
    to: Writer,
    record: Option<record::Writer>,
    readers: Vec<Reader>,
    end: End,
}

/// Where the log is on the way to its command's end.
enum End {
    Runs,
    /// What the command wrote last is still to be moved. So much was, since it ended.
    Ended(Exited, usize),
    Finished(Finished),
}

/// An attached client.
struct Reader {
    client: u64,
    taken: u64,
    /// It knows that there is more than it has taken.
    is_told: bool,
}

/// What the files and the command's descriptors make up.
pub(super) struct Parts {
    pub id: Option<CommandId>,
    pub from: OwnedFd,
    pub side: Option<OwnedFd>,
    pub files: [File; 2],
    pub record: Option<File>,
    pub largest: u64,
}

impl Log {
    pub(super) fn new(parts: Parts) -> io::Result<Self> {
        rustix::io::ioctl_fionbio(&parts.from, true)?;
        Ok(Self {
            id: parts.id,
            from: Some(parts.from),
            side: parts.side,
            to: Writer::with_files_of(parts.largest, parts.files),
            record: parts.record.map(record::Writer::new),
            readers: Vec::new(),
            end: End::Runs,
        })
    }

    /// To be watched for more output; not while there is no room for it.
    pub(super) fn source(&self) -> Option<BorrowedFd<'_>> {
        self.from.as_ref().filter(|_| self.room() > 0).map(AsFd::as_fd)
    }

    pub(super) fn has_started(&mut self, started: &record::Started) {
        if let Some(record) = &mut self.record {
            // Whoever asks for it then does not find the command; it runs all the same.
            let _ = record.started(started);
        }
    }

    /// Its command has ended. What it left running may go on writing.
    pub(super) fn has_ended(&mut self, exited: Exited) {
        self.side = None;
        self.end = End::Ended(exited, 0);
    }

    pub(super) fn attach(&mut self, client: u64, from: u64) {
        self.detach(client);
        let taken = from.clamp(self.to.first(), self.to.end());
        self.readers.push(Reader { client, taken, is_told: false });
    }

    pub(super) fn detach(&mut self, client: u64) {
        self.readers.retain(|r| r.client != client);
    }

    pub(super) fn has_taken(&mut self, client: u64, offset: u64) {
        let end = self.to.end();
        for reader in self.readers.iter_mut().filter(|r| r.client == client) {
            reader.taken = offset.clamp(reader.taken, end);
            reader.is_told = false;
        }
    }

    pub(super) fn readers(&self) -> impl Iterator<Item = u64> {
        self.readers.iter().map(|r| r.client)
    }

    /// All output so far.
    pub(super) fn end(&self) -> u64 {
        self.to.end()
    }

    /// Moves what has arrived and tells whoever is attached. False when nothing more will come, and everybody knows.
    pub(super) fn work(&mut self, connections: &mut Connections) -> bool {
        let (moved, is_empty) = self.pump();
        if let End::Ended(exited, since) = &mut self.end {
            *since += moved;
            // What others go on writing is not the command's.
            if is_empty || *since >= MOST_AT_ONCE {
                let finished = Finished { exited: exited.clone(), output: self.to.end() };
                self.finish(finished, connections);
            }
        }
        self.tell(connections);
        self.from.is_some() || !matches!(self.end, End::Finished(_))
    }

    /// The keeper ends, and so does everything that could write. A reader that is behind reads the file alone from here on.
    pub(super) fn close(&mut self, connections: &mut Connections) {
        self.to.keep_all();
        self.work(connections);
    }

    pub(super) fn tell(&mut self, connections: &mut Connections) {
        let end = self.to.end();
        for reader in self.readers.iter_mut().filter(|r| !r.is_told && r.taken < end) {
            reader.is_told = true;
            connections.send(reader.client, &Reply::Output { end }, &[]);
        }
    }

    /// The number its command had; 0 while it runs.
    pub(super) fn pid(&self) -> i32 {
        match &self.end {
            End::Runs => 0,
            End::Ended(exited, _) | End::Finished(Finished { exited, .. }) => exited.pid,
        }
    }

    /// Once its command has ended and all that it wrote is in the log.
    pub(super) fn finished(&self) -> Option<&Finished> {
        match &self.end {
            End::Finished(finished) => Some(finished),
            End::Runs | End::Ended(..) => None,
        }
    }

    fn finish(&mut self, finished: Finished, connections: &mut Connections) {
        if let Some(record) = &mut self.record {
            // The keeper remembers the latest itself.
            let _ = record.finished(&finished);
        }
        for reader in &self.readers {
            connections.send(reader.client, &Reply::Finished(finished.clone()), &[]);
        }
        self.end = End::Finished(finished);
    }

    fn room(&self) -> usize {
        let room = self.readers.iter().map(|r| r.taken).min().map_or(u64::MAX, |taken| self.to.room_beside(taken));
        usize::try_from(room).unwrap_or(usize::MAX)
    }

    /// How much was moved, and whether there is no more for now.
    fn pump(&mut self) -> (usize, bool) {
        let mut buffer = [0_u8; 64 << 10];
        let mut moved = 0;
        while moved < MOST_AT_ONCE {
            let Some(from) = &self.from else { return (moved, true) };
            let wanted = self.room().min(buffer.len());
            if wanted == 0 {
                return (moved, false);
            }
            match rustix::io::read(from, &mut buffer[..wanted]) {
                Ok(length @ 1..) => {
                    self.to.write(&buffer[..length]);
                    moved += length;
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => return (moved, true),
                // The end; a terminal whose last user is gone says EIO.
                Ok(0) | Err(_) => self.from = None,
            }
        }
        (moved, false)
    }
}
