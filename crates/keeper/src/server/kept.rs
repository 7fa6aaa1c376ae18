//! Output that the keeper keeps itself, in memory, for clients that could pass it no files: those beyond a stream.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{MemfdFlags, memfd_create};
use rustix::pipe::{PipeFlags, pipe_with};
use whatif_types::CommandId;

use super::commands::{Commands, LogFiles};
use crate::log::record::Record;
use crate::log::{LARGEST_IN_MEMORY, Part, Reader};
use crate::protocol::{Failed, Reason, Reply};

/// So many commands that ended can still be read and attached to.
const MOST_ENDED: usize = 32;
/// The most that is read at a time. A pipe holds it.
const LARGEST_PIECE: usize = 64 << 10;

/// The same three files that a client with descriptors would have passed.
pub(super) struct Kept {
    id: CommandId,
    files: [File; 2],
    record: File,
}

impl Kept {
    fn new(id: CommandId) -> io::Result<Self> {
        let file = || memfd_create("whatif-log", MemfdFlags::CLOEXEC).map(File::from);
        let kept = Self { id, files: [file()?, file()?], record: file()? };
        Record::prepare(&kept.record)?;
        Ok(kept)
    }

    fn files(&self) -> io::Result<[File; 2]> {
        Ok([self.files[0].try_clone()?, self.files[1].try_clone()?])
    }

    fn recorded(&self) -> Option<Record> {
        Record::read(&self.record).ok().flatten()
    }

    fn has_ended(&self) -> bool {
        self.recorded().is_some_and(|record| record.finished.is_some())
    }
}

impl Commands {
    /// Files for the output of a new command. The oldest that ended makes room.
    pub(super) fn keep(&mut self, id: CommandId) -> Result<LogFiles, Failed> {
        if self.kept.iter().any(|kept| kept.id == id) {
            return Err(failed(format!("there is a command {id} already"), None));
        }
        while self.kept.iter().filter(|kept| kept.has_ended()).count() >= MOST_ENDED {
            let oldest = self.kept.iter().position(Kept::has_ended);
            oldest.map(|index| self.kept.remove(index));
        }
        let make = || {
            let kept = Kept::new(id)?;
            let log =
                LogFiles { files: kept.files()?, record: Some(kept.record.try_clone()?), errors: None, largest: LARGEST_IN_MEMORY };
            Ok::<_, io::Error>((kept, log))
        };
        let (kept, log) = make().map_err(|e| failed(format!("failed to keep its output: {e}"), Some(&e)))?;
        self.kept.push(kept);
        Ok(log)
    }

    /// It could not be started.
    pub(super) fn keep_not(&mut self, id: Option<CommandId>) {
        self.kept.retain(|kept| Some(kept.id) != id);
    }

    /// What is to be said to somebody who attaches to one that has ended.
    pub(super) fn ended_before(&self, id: CommandId) -> Option<[Reply; 2]> {
        let record = self.kept.iter().find(|kept| kept.id == id)?.recorded()?;
        let finished = record.finished?;
        let (pid, is_terminal, end) = (record.started.pid, record.started.is_terminal, finished.output);
        Some([Reply::Attached { pid, has_input: false, is_terminal, end }, Reply::Finished(finished)])
    }

    /// What is kept from there on, or from where that begins. It comes in a pipe, which holds all of it already.
    pub(super) fn read_output(&self, id: CommandId, from: u64) -> Result<(Reply, Option<OwnedFd>), Failed> {
        let kept = self.kept.iter().find(|kept| kept.id == id);
        let kept = kept.ok_or_else(|| Failed {
            reason: Reason::NoSuchProcess,
            ..failed(format!("the output of a command {id} is not kept here"), None)
        })?;
        let read = || {
            let mut reader = Reader::new(kept.files()?.into());
            reader.go_to(from);
            let mut buffer = [0_u8; LARGEST_PIECE];
            loop {
                match reader.next(&mut buffer)? {
                    None => return Ok((Reply::Piece { start: reader.position(), length: 0 }, None)),
                    Some(Part::Dropped(_)) => {}
                    Some(Part::Output(length)) => {
                        let start = reader.position() - length as u64;
                        // A user who has many pipes gets smaller ones.
                        let (piece, to) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
                        let length = rustix::io::write(&to, &buffer[..length])?;
                        return Ok((Reply::Piece { start, length }, Some(piece)));
                    }
                }
            }
        };
        read().map_err(|e: io::Error| failed(format!("failed to read the output of {id}: {e}"), Some(&e)))
    }
}

fn failed(message: String, error: Option<&io::Error>) -> Failed {
    Failed { reason: Reason::Refused, message, errno: error.and_then(io::Error::raw_os_error).unwrap_or(0) }
}
