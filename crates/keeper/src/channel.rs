//! Frames over a unix socket: a length, JSON, and the descriptors that belong to it.

use std::collections::VecDeque;
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::io::{Errno, retry_on_intr};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recvmsg, sendmsg,
};
use serde::Serialize;
use serde::de::DeserializeOwned;
use whatif_sys::shares::send_in_any_case;

/// A frame holds a command line with its environment (2 MiB at most) in JSON; nothing sensible is larger.
const LARGEST_FRAME: usize = 16 << 20;
pub(crate) const MOST_DESCRIPTORS: usize = 64;

#[derive(Debug, thiserror::Error)]
pub enum ChannelError {
    #[error("the other side closed the connection")]
    Closed,
    #[error("the other side sent something that is not understood")]
    Malformed(#[source] serde_json::Error),
    #[error("the other side sent a frame of {0} bytes")]
    TooLarge(usize),
    #[error("the connection failed")]
    Io(#[from] io::Error),
}

/// One end of a connection.
#[derive(Debug)]
pub struct Channel {
    socket: OwnedFd,
    incoming: Vec<u8>,
    descriptors: VecDeque<OwnedFd>,
    outgoing: Vec<u8>,
}

impl Channel {
    #[must_use]
    pub fn new(socket: OwnedFd) -> Self {
        Self { socket, incoming: Vec::new(), descriptors: VecDeque::new(), outgoing: Vec::new() }
    }

    #[must_use]
    pub fn into_socket(self) -> OwnedFd {
        self.socket
    }

    #[must_use]
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }

    /// Sends a frame, waiting until all of it is on its way.
    pub fn send(&mut self, message: &impl Serialize, descriptors: &[BorrowedFd<'_>]) -> Result<(), ChannelError> {
        self.queue(message, descriptors, SendFlags::NOSIGNAL)?;
        self.flush_all()
    }

    /// Leaves a frame to be sent together with the next one.
    pub fn put(&mut self, message: &impl Serialize) -> Result<(), ChannelError> {
        let frame = frame_of(message)?;
        self.outgoing.extend_from_slice(&frame);
        Ok(())
    }

    /// Sends what is left of frames, waiting until all of it is on its way.
    pub fn flush_all(&mut self) -> Result<(), ChannelError> {
        while !self.outgoing.is_empty() {
            self.flush_with(SendFlags::NOSIGNAL)?;
        }
        Ok(())
    }

    /// Sends as much of a frame as the socket takes at once; `flush` sends the rest.
    pub fn send_some(&mut self, message: &impl Serialize, descriptors: &[BorrowedFd<'_>]) -> Result<(), ChannelError> {
        self.queue(message, descriptors, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
    }

    /// How many bytes wait to be sent.
    #[must_use]
    pub fn unsent(&self) -> usize {
        self.outgoing.len()
    }

    #[must_use]
    pub fn has_outgoing(&self) -> bool {
        !self.outgoing.is_empty()
    }

    pub fn flush(&mut self) -> Result<(), ChannelError> {
        self.flush_with(SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
    }

    /// Receives one frame, waiting for it.
    pub fn receive<T: DeserializeOwned>(&mut self) -> Result<T, ChannelError> {
        loop {
            if let Some(message) = self.take_frame()? {
                return Ok(message);
            }
            self.fill(RecvFlags::empty())?;
        }
    }

    /// Reads what has arrived. `Closed` when the other side is gone.
    pub fn receive_some(&mut self) -> Result<(), ChannelError> {
        match self.fill(RecvFlags::DONTWAIT) {
            Err(ChannelError::Io(error)) if error.kind() == io::ErrorKind::WouldBlock => Ok(()),
            other => other,
        }
    }

    /// Takes the next whole frame out of what has arrived.
    pub fn take_frame<T: DeserializeOwned>(&mut self) -> Result<Option<T>, ChannelError> {
        let Some(header) = self.incoming.first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*header) as usize;
        if length > LARGEST_FRAME {
            return Err(ChannelError::TooLarge(length));
        }
        let Some(body) = self.incoming.get(4..4 + length) else { return Ok(None) };
        let message = serde_json::from_slice(body).map_err(ChannelError::Malformed)?;
        self.incoming.drain(..4 + length);
        Ok(Some(message))
    }

    /// Whether a whole frame has arrived already; then there may be nothing left for `poll` to see.
    #[must_use]
    pub fn has_frame(&self) -> bool {
        self.incoming.first_chunk::<4>().is_some_and(|header| self.incoming.len() >= 4 + u32::from_le_bytes(*header) as usize)
    }

    /// The next descriptor that came along.
    pub fn take_descriptor(&mut self) -> Option<OwnedFd> {
        self.descriptors.pop_front()
    }

    fn queue(&mut self, message: &impl Serialize, descriptors: &[BorrowedFd<'_>], flags: SendFlags) -> Result<(), ChannelError> {
        let frame = frame_of(message)?;
        let unsent_before = self.outgoing.len();
        self.outgoing.extend_from_slice(&frame);
        if descriptors.is_empty() {
            return self.flush_with(flags);
        }
        let sent = self.send_with(descriptors);
        match sent {
            // Descriptors arrive in the order of their frames, and with the bytes of an earlier one that has none of its own.
            Ok(sent) => self.outgoing.drain(..sent),
            Err(_) => self.outgoing.drain(unsent_before..),
        };
        sent.and_then(|_| self.flush_with(flags))
    }

    /// Sends as much as the socket takes, and these descriptors with its first byte.
    fn send_with(&self, descriptors: &[BorrowedFd<'_>]) -> Result<usize, ChannelError> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        if !control.push(SendAncillaryMessage::ScmRights(descriptors)) {
            return Err(ChannelError::TooLarge(descriptors.len()));
        }
        let bytes = [IoSlice::new(&self.outgoing)];
        let mut send = || retry_on_intr(|| sendmsg(&self.socket, &bytes, &mut control, SendFlags::NOSIGNAL));
        send_in_any_case(&mut send).map_err(unsent)
    }

    fn flush_with(&mut self, flags: SendFlags) -> Result<(), ChannelError> {
        if self.outgoing.is_empty() {
            return Ok(());
        }
        match rustix::net::send(&self.socket, &self.outgoing, flags) {
            Ok(sent) => {
                self.outgoing.drain(..sent);
                Ok(())
            }
            Err(Errno::INTR) => Ok(()),
            // Whoever was ready to wait has waited as long as the socket lets them.
            Err(Errno::WOULDBLOCK) if flags.contains(SendFlags::DONTWAIT) => Ok(()),
            Err(errno) => Err(unsent(errno)),
        }
    }

    fn fill(&mut self, flags: RecvFlags) -> Result<(), ChannelError> {
        let mut bytes = [0_u8; AT_ONCE];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let received = loop {
            match recvmsg(&self.socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, flags | RecvFlags::CMSG_CLOEXEC) {
                Err(Errno::INTR) => {}
                Err(Errno::CONNRESET) => return Err(ChannelError::Closed),
                other => break other.map_err(io::Error::from)?,
            }
        };
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                self.descriptors.extend(descriptors);
            }
        }
        if received.bytes == 0 {
            return Err(ChannelError::Closed);
        }
        self.incoming.extend_from_slice(&bytes[..received.bytes]);
        Ok(())
    }
}

fn frame_of(message: &impl Serialize) -> Result<Vec<u8>, ChannelError> {
    let mut frame = vec![0_u8; 4];
    serde_json::to_writer(&mut frame, message).map_err(ChannelError::Malformed)?;
    let size = frame.len() - 4;
    let length = u32::try_from(size).ok().filter(|_| size <= LARGEST_FRAME).ok_or(ChannelError::TooLarge(size))?;
    frame[..4].copy_from_slice(&length.to_le_bytes());
    Ok(frame)
}

/// Most frames are smaller than this.
const AT_ONCE: usize = 8 << 10;

fn unsent(errno: Errno) -> ChannelError {
    match errno {
        Errno::PIPE | Errno::CONNRESET => ChannelError::Closed,
        errno => ChannelError::Io(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    fn pair() -> (Channel, Channel) {
        let (a, b) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
        (Channel::new(a), Channel::new(b))
    }

    #[test]
    fn frames_and_their_descriptors_arrive_in_order() {
        let (mut here, mut there) = pair();
        let (read, write) = rustix::pipe::pipe().unwrap();
        here.send(&"first", &[read.as_fd()]).unwrap();
        here.send(&"second", &[write.as_fd()]).unwrap();
        assert_eq!(there.receive::<String>().unwrap(), "first");
        let reader = there.take_descriptor().unwrap();
        assert_eq!(there.receive::<String>().unwrap(), "second");
        rustix::io::write(there.take_descriptor().unwrap(), b"through").unwrap();
        let mut buffer = [0; 7];
        rustix::io::read(reader, &mut buffer).unwrap();
        assert_eq!(&buffer, b"through");
    }

    #[test]
    fn a_frame_that_was_put_aside_goes_with_the_next_one_and_its_descriptors() {
        let (mut here, mut there) = pair();
        let (read, write) = rustix::pipe::pipe().unwrap();
        here.put(&"first").unwrap();
        there.receive_some().unwrap();
        assert!(!there.has_frame(), "nothing was sent so far");
        here.send(&"second", &[read.as_fd()]).unwrap();
        assert_eq!(there.receive::<String>().unwrap(), "first");
        assert_eq!(there.receive::<String>().unwrap(), "second");
        rustix::io::write(&write, b"through").unwrap();
        let mut buffer = [0; 7];
        rustix::io::read(there.take_descriptor().unwrap(), &mut buffer).unwrap();
        assert_eq!(&buffer, b"through");
        here.put(&"third").unwrap();
        here.flush_all().unwrap();
        assert_eq!(there.receive::<String>().unwrap(), "third");
    }

    #[test]
    fn a_frame_larger_than_the_socket_buffer_arrives_whole() {
        let (mut here, mut there) = pair();
        let long = "x".repeat(3 << 20);
        let expected = long.clone();
        let sender = std::thread::spawn(move || here.send(&long, &[]).unwrap());
        assert_eq!(there.receive::<String>().unwrap(), expected);
        sender.join().unwrap();
    }

    #[test]
    fn garbage_and_giant_frames_are_refused() {
        let (here, mut there) = pair();
        rustix::io::write(here.as_fd(), &[4, 0, 0, 0, b'{', b'{', b'{', b'{']).unwrap();
        assert!(matches!(there.receive::<String>(), Err(ChannelError::Malformed(_))));
        let (here, mut there) = pair();
        rustix::io::write(here.as_fd(), &[0xff; 8]).unwrap();
        assert!(matches!(there.receive::<String>(), Err(ChannelError::TooLarge(_))));
        drop(here);
        let (here, mut there) = pair();
        drop(here);
        assert!(matches!(there.receive::<String>(), Err(ChannelError::Closed)));
    }
}
