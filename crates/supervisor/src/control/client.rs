//! The other side of the control socket, for commands outside.

use std::io::{self, BufRead, BufReader, IoSlice, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::net::{SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};
use whatif_sys::shares::send_in_any_case;

use super::protocol::{Answer, Asked, LONGEST_LINE, Operation, Reply, Said, Status};

const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    #[error("cannot talk to the supervisor of the sandbox's network")]
    Io(#[from] io::Error),
    #[error("the supervisor of the sandbox's network refuses: {0}")]
    Refused(String),
    #[error("the supervisor of the sandbox's network answered out of turn")]
    OutOfTurn,
}

/// A blocking connection to a supervisor.
#[derive(Debug)]
pub struct ControlClient {
    stream: BufReader<UnixStream>,
}

impl ControlClient {
    /// Over a connected socket.
    #[must_use]
    pub fn over(socket: OwnedFd) -> Self {
        let stream = UnixStream::from(socket);
        // Without a limit it would only wait longer.
        let _ = stream.set_read_timeout(Some(PATIENCE));
        let _ = stream.set_write_timeout(Some(PATIENCE));
        Self { stream: BufReader::new(stream) }
    }

    pub fn status(&mut self) -> Result<Status, ControlError> {
        match self.ask(&Operation::Status, None)? {
            Reply::Status { status } => Ok(status),
            Reply::Outcome { error: Some(error), .. } => Err(ControlError::Refused(error)),
            _ => Err(ControlError::OutOfTurn),
        }
    }

    /// `network.json` has changed. Connections that it does not allow are cut when this returns.
    pub fn reload(&mut self) -> Result<(), ControlError> {
        self.order(&Operation::Reload, None)
    }

    /// The same for a supervisor that may not open the file itself.
    pub fn reload_from(&mut self, file: impl AsFd) -> Result<(), ControlError> {
        self.order(&Operation::Reload, Some(file.as_fd()))
    }

    /// Connections to this listener go to a port inside.
    pub fn publish(&mut self, inside: u16, listener: impl AsFd) -> Result<(), ControlError> {
        self.order(&Operation::Publish { inside }, Some(listener.as_fd()))
    }

    pub fn unpublish(&mut self, inside: u16) -> Result<(), ControlError> {
        self.order(&Operation::Unpublish { inside }, None)
    }

    /// From here on this client answers questions.
    pub fn answering(mut self) -> Result<Answering, ControlError> {
        self.order(&Operation::Asks, None)?;
        self.stream.get_ref().set_read_timeout(None)?;
        Ok(Answering { client: self })
    }

    fn order(&mut self, operation: &Operation, descriptor: Option<BorrowedFd<'_>>) -> Result<(), ControlError> {
        match self.ask(operation, descriptor)? {
            Reply::Outcome { ok: true, .. } => Ok(()),
            Reply::Outcome { error, .. } => Err(ControlError::Refused(error.unwrap_or_default())),
            _ => Err(ControlError::OutOfTurn),
        }
    }

    fn ask(&mut self, operation: &Operation, descriptor: Option<BorrowedFd<'_>>) -> Result<Reply, ControlError> {
        self.say(&Said::Operation(operation.clone()), descriptor)?;
        self.hear()?.ok_or_else(|| io::Error::from(io::ErrorKind::UnexpectedEof).into())
    }

    fn say(&mut self, said: &Said, descriptor: Option<BorrowedFd<'_>>) -> Result<(), ControlError> {
        let mut line = serde_json::to_vec(said).map_err(io::Error::from)?;
        line.push(b'\n');
        let mut stream = self.stream.get_ref();
        let Some(descriptor) = descriptor else { return Ok(stream.write_all(&line)?) };
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(std::slice::from_ref(&descriptor)));
        let send = || sendmsg(stream, &[IoSlice::new(&line)], &mut control, SendFlags::NOSIGNAL);
        let sent = send_in_any_case(send).map_err(io::Error::from)?;
        Ok(stream.write_all(&line[sent..])?)
    }

    fn hear(&mut self) -> Result<Option<Reply>, ControlError> {
        let mut line = Vec::new();
        let count = self.stream.by_ref().take(LONGEST_LINE as u64).read_until(b'\n', &mut line)?;
        if count == 0 {
            return Ok(None);
        }
        Ok(Some(serde_json::from_slice(&line).map_err(io::Error::from)?))
    }
}

/// A client that answers questions, for as long as it lives.
#[derive(Debug)]
pub struct Answering {
    client: ControlClient,
}

impl Answering {
    /// Readable when there may be a question.
    #[must_use]
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.client.stream.get_ref().as_fd()
    }

    /// Whether something arrived together with the last question; then there may be nothing left for `poll` to see.
    #[must_use]
    pub fn has_more(&self) -> bool {
        !self.client.stream.buffer().is_empty()
    }

    /// What the supervisor says next; `None` when it is gone. Waits for it.
    pub fn hear(&mut self) -> Result<Option<Asked>, ControlError> {
        loop {
            match self.client.hear()? {
                None => return Ok(None),
                Some(Reply::Ask { ask }) => return Ok(Some(Asked::Question(ask))),
                Some(Reply::Withdrawn { withdrawn }) => return Ok(Some(Asked::Withdrawn(withdrawn))),
                Some(Reply::Unasked { unasked }) => return Ok(Some(Asked::TooMany(unasked))),
                Some(Reply::Status { .. } | Reply::Outcome { .. }) => {}
            }
        }
    }

    pub fn answer(&mut self, id: u64, allow: bool) -> Result<(), ControlError> {
        self.client.say(&Said::Answer { answer: Answer { id, allow } }, None)
    }
}
