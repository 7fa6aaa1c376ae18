//! Files inside, asked for one after the other over one connection.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::io::Errno;
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, socketpair};

use super::{Client, ClientError, LARGEST_PIECE};
use crate::channel::ChannelError;
use crate::protocol::{Condition, FileReply, FileRequest, FileStat, Happening, Listed, Reply, Request, Text};

/// Read from what is to be sent, and sent, at a time.
const SENT_AT_ONCE: usize = 128 << 10;

/// A part of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    pub bytes: Vec<u8>,
    /// Of the file that they are from.
    pub stat: FileStat,
}

impl Client {
    /// With `follow`, of what a link leads to.
    pub fn stat(&mut self, path: &Path, follow: bool) -> Result<FileStat, ClientError> {
        self.ask(FileRequest::Stat { path: path.into(), follow }, &[])?;
        self.told_stat()
    }

    /// The entries after a name, and the name to go on after, if there may be others.
    pub fn list_page(&mut self, path: &Path, after: Option<&Text>, most: u32) -> Result<(Vec<Listed>, Option<Text>), ClientError> {
        self.ask(FileRequest::List { path: path.into(), after: after.cloned(), most }, &[])?;
        match self.file_reply()? {
            Reply::Files(FileReply::Page { entries, next }) => Ok((entries, next)),
            _ => Err(ClientError::OutOfTurn),
        }
    }

    /// One piece from there on; shorter than asked for at the end of the file, and where a piece holds no more.
    pub fn read_range(&mut self, path: &Path, offset: u64, length: u64, if_version: Option<&str>) -> Result<Range, ClientError> {
        let if_version = if_version.map(ToOwned::to_owned);
        self.ask(FileRequest::Read { path: path.into(), offset, length, if_version }, &[])?;
        let Reply::Files(FileReply::Range { length: got, stat }) = self.file_reply()? else { return Err(ClientError::OutOfTurn) };
        let mut bytes = vec![0; got.min(LARGEST_PIECE)];
        if got > 0 {
            let pipe = self.channel.take_descriptor().ok_or(ClientError::OutOfTurn)?;
            File::from(pipe).read_exact(&mut bytes).map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof => ChannelError::Closed,
                _ => ChannelError::Io(error),
            })?;
        }
        Ok(Range { bytes, stat })
    }

    /// All that there is to read becomes the file, or nothing of it. Without a mode, it is that of the file in whose place it comes.
    pub fn write_file(
        &mut self,
        path: &Path,
        mode: Option<u32>,
        condition: Condition,
        from: &mut dyn Read,
    ) -> Result<FileStat, ClientError> {
        self.fill(FileRequest::Write { path: path.into(), mode, condition }, from)
    }

    /// At the end of a file, as it comes. With a mode, one that is not there is created.
    pub fn append_file(
        &mut self,
        path: &Path,
        create: Option<u32>,
        if_version: Option<&str>,
        from: &mut dyn Read,
    ) -> Result<FileStat, ClientError> {
        self.fill(FileRequest::Append { path: path.into(), create, if_version: if_version.map(ToOwned::to_owned) }, from)
    }

    pub fn delete(&mut self, path: &Path, recursive: bool, if_version: Option<&str>) -> Result<(), ClientError> {
        self.ask(FileRequest::Delete { path: path.into(), recursive, if_version: if_version.map(ToOwned::to_owned) }, &[])?;
        self.file_done()
    }

    pub fn move_file(&mut self, from: &Path, to: &Path, replace: bool) -> Result<(), ClientError> {
        self.ask(FileRequest::Move { from: from.into(), to: to.into(), replace }, &[])?;
        self.file_done()
    }

    pub fn make_directories(&mut self, path: &Path, mode: u32) -> Result<(), ClientError> {
        self.ask(FileRequest::MakeDirectories { path: path.into(), mode }, &[])?;
        self.file_done()
    }

    /// From here on `happened` tells what happens there, too. A client that watches is asked for nothing else.
    pub fn watch(&mut self, path: &Path) -> Result<(), ClientError> {
        self.ask(FileRequest::Watch { path: path.into() }, &[])?;
        loop {
            match self.reply()? {
                Reply::Done => return Ok(()),
                Reply::Files(FileReply::Happened(happened)) => self.heard.extend(happened),
                _ => return Err(ClientError::OutOfTurn),
            }
        }
    }

    /// What happened to what this client watches; waits for it.
    pub fn happened(&mut self) -> Result<Vec<Happening>, ClientError> {
        if !self.heard.is_empty() {
            return Ok(std::mem::take(&mut self.heard));
        }
        loop {
            match self.reply() {
                Ok(Reply::Files(FileReply::Happened(happened))) => return Ok(happened),
                // Nothing happens for as long as it likes.
                Err(ClientError::NoAnswer) => {}
                Ok(_) => return Err(ClientError::OutOfTurn),
                Err(error) => return Err(error),
            }
        }
    }

    fn fill(&mut self, request: FileRequest, from: &mut dyn Read) -> Result<FileStat, ClientError> {
        // A socket, not a pipe: who writes to a pipe that nobody reads is ended by a signal.
        let (ours, given) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        self.ask(request, &[given.as_fd()])?;
        drop(given);
        if !matches!(self.file_reply()?, Reply::Files(FileReply::Ready)) {
            return Err(ClientError::OutOfTurn);
        }
        match send_all(from, &ours) {
            Ok(Some(length)) => {
                drop(ours);
                self.ask(FileRequest::Finish { length: Some(length) }, &[])?;
            }
            // It has said why it takes no more.
            Ok(None) => {}
            Err(error) => {
                drop(ours);
                self.ask(FileRequest::Finish { length: None }, &[])?;
                // What went wrong first is what has to be said.
                let _ = self.file_reply();
                return Err(ClientError::Source(error));
            }
        }
        self.told_stat()
    }

    fn ask(&mut self, request: FileRequest, descriptors: &[std::os::fd::BorrowedFd<'_>]) -> Result<(), ClientError> {
        self.send(&Request::Files(request), descriptors)
    }

    fn file_reply(&mut self) -> Result<Reply, ClientError> {
        loop {
            match self.reply()? {
                Reply::Files(FileReply::Working) => {}
                other => return Ok(other),
            }
        }
    }

    fn told_stat(&mut self) -> Result<FileStat, ClientError> {
        match self.file_reply()? {
            Reply::Files(FileReply::Stat(stat)) => Ok(stat),
            _ => Err(ClientError::OutOfTurn),
        }
    }

    fn file_done(&mut self) -> Result<(), ClientError> {
        match self.file_reply()? {
            Reply::Done => Ok(()),
            _ => Err(ClientError::OutOfTurn),
        }
    }
}

/// How much it was; `None` if the other side takes no more.
fn send_all(from: &mut dyn Read, to: &OwnedFd) -> io::Result<Option<u64>> {
    let mut buffer = vec![0; SENT_AT_ONCE];
    let mut sent = 0;
    loop {
        let length = match from.read(&mut buffer) {
            Ok(0) => return Ok(Some(sent)),
            Ok(length) => length,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let mut rest = &buffer[..length];
        while !rest.is_empty() {
            match rustix::net::send(to, rest, SendFlags::NOSIGNAL) {
                Ok(taken) => rest = &rest[taken..],
                Err(Errno::INTR) => {}
                Err(Errno::PIPE | Errno::CONNRESET) => return Ok(None),
                Err(errno) => return Err(errno.into()),
            }
        }
        sent += length as u64;
    }
}
