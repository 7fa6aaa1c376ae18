//! Lines over a Unix socket, and the descriptors that come along.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;

use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use serde::Serialize;
use tokio::io::Interest;
use tokio::net::UnixStream;

use super::protocol::LONGEST_LINE;

/// With one line; a command needs one.
const MOST_DESCRIPTORS: usize = 4;

#[derive(Debug)]
pub(super) struct Lines {
    stream: UnixStream,
    incoming: Vec<u8>,
    descriptors: VecDeque<OwnedFd>,
}

impl Lines {
    pub(super) fn new(stream: UnixStream) -> Self {
        Self { stream, incoming: Vec::new(), descriptors: VecDeque::new() }
    }

    /// The next line without its end; `None` when the other side has left. Safe to cancel.
    pub(super) async fn next(&mut self) -> io::Result<Option<Vec<u8>>> {
        loop {
            if let Some(end) = self.incoming.iter().position(|byte| *byte == b'\n') {
                let mut line: Vec<u8> = self.incoming.drain(..=end).collect();
                line.pop();
                return Ok(Some(line));
            }
            if self.incoming.len() >= LONGEST_LINE {
                return Err(io::ErrorKind::InvalidData.into());
            }
            self.stream.readable().await?;
            match self.receive() {
                Ok(0) => return Ok(None),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn receive(&mut self) -> io::Result<usize> {
        let mut bytes = [0_u8; 4096];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let count = self.stream.try_io(Interest::READABLE, || {
            let flags = RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT;
            Ok(recvmsg(&self.stream, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags)?.bytes)
        })?;
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.descriptors.extend(descriptors);
            }
        }
        self.descriptors.truncate(MOST_DESCRIPTORS);
        self.incoming.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    /// The next descriptor that came along.
    pub(super) fn take_descriptor(&mut self) -> Option<OwnedFd> {
        self.descriptors.pop_front()
    }

    pub(super) async fn send(&mut self, message: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        let mut rest = line.as_slice();
        while !rest.is_empty() {
            self.stream.writable().await?;
            match self.stream.try_write(rest) {
                Ok(count) => rest = &rest[count..],
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
