//! The end of a channel on this side: a descriptor that is read and written without waiting.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::fs::{FileType, Mode, OFlags, fcntl_getfl, fstat};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    Shutdown, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use rustix::pipe::{PipeFlags, pipe_with};
use whatif_sys::shares::send_in_any_case;

use super::frame::Direction;
use crate::channel::MOST_DESCRIPTORS;

#[derive(Debug)]
pub(super) struct Local {
    fd: OwnedFd,
    is_socket: bool,
    /// Descriptors come and go with its bytes.
    pub is_session: bool,
    /// What it says still goes into the stream.
    pub reads: bool,
    /// What the stream says still goes there.
    pub writes: bool,
    /// On its way from the stream. No more than a window.
    inbound: Vec<u8>,
    /// To go with the next bytes.
    passed: Vec<OwnedFd>,
    /// Nothing follows what is on its way.
    ended: bool,
}

/// What came of reading.
#[derive(Debug)]
pub(super) enum Read {
    Some(usize, Vec<OwnedFd>),
    NotYet,
    Ended,
}

/// Who else has a descriptor that was passed to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sharing {
    /// Only this process.
    Ours,
    /// Programs of the user, which do not expect that it stops waiting.
    Theirs,
}

impl Local {
    /// A socket, with the descriptors that come along.
    pub(super) fn session(fd: OwnedFd) -> Self {
        Self { is_session: true, ..Self::new(fd, true, Direction::Both) }
    }

    /// A descriptor that somebody on this side passed to somebody on the other, and what that one does with it.
    pub(super) fn passed(fd: OwnedFd, sharing: Sharing) -> io::Result<(Self, Direction)> {
        let flags = fcntl_getfl(&fd)?;
        if flags.contains(OFlags::PATH) {
            return Err(Errno::BADF.into());
        }
        let direction = match flags & OFlags::RWMODE {
            OFlags::RDWR => Direction::Both,
            OFlags::WRONLY => Direction::Writes,
            _ => Direction::Reads,
        };
        let kind = FileType::from_raw_mode(fstat(&fd)?.st_mode);
        let fd = match kind {
            FileType::Socket => fd,
            FileType::Fifo if sharing == Sharing::Theirs => reopened(&fd, flags & OFlags::RWMODE)?,
            _ => {
                rustix::io::ioctl_fionbio(&fd, true)?;
                fd
            }
        };
        Ok((Self::new(fd, kind == FileType::Socket, direction), direction))
    }

    /// Both ends for a descriptor that somebody on the other side passed: ours, and the one for somebody on this side.
    pub(super) fn pair_for(direction: Direction) -> io::Result<(Self, OwnedFd)> {
        let (ours, given) = match direction {
            Direction::Reads => pipe_with(PipeFlags::CLOEXEC).map(|(read, write)| (write, read))?,
            Direction::Writes => pipe_with(PipeFlags::CLOEXEC)?,
            Direction::Both => sockets()?,
        };
        if direction != Direction::Both {
            rustix::io::ioctl_fionbio(&ours, true)?;
        }
        let ours_is = match direction {
            Direction::Reads => Direction::Writes,
            Direction::Writes => Direction::Reads,
            Direction::Both => Direction::Both,
        };
        Ok((Self::new(ours, direction == Direction::Both, ours_is), given))
    }

    fn new(fd: OwnedFd, is_socket: bool, direction: Direction) -> Self {
        Self {
            fd,
            is_socket,
            is_session: false,
            reads: direction != Direction::Writes,
            writes: direction != Direction::Reads,
            inbound: Vec::new(),
            passed: Vec::new(),
            ended: false,
        }
    }

    pub(super) fn has_inbound(&self) -> bool {
        !self.inbound.is_empty()
    }

    pub(super) fn is_over(&self) -> bool {
        !self.reads && !self.writes
    }

    pub(super) fn put(&mut self, bytes: &[u8]) {
        if self.writes {
            self.inbound.extend_from_slice(bytes);
        }
    }

    /// To go with what comes next. False if there are too many.
    pub(super) fn pass(&mut self, fd: OwnedFd) -> bool {
        self.passed.push(fd);
        self.passed.len() <= MOST_DESCRIPTORS
    }

    /// Nothing follows what is on its way.
    pub(super) fn end(&mut self) {
        self.ended = true;
        self.end_if_empty();
    }

    /// Nobody takes what is on its way.
    pub(super) fn give_up(&mut self) {
        self.writes = false;
        self.inbound = Vec::new();
        self.passed.clear();
    }

    pub(super) fn read(&self, into: &mut [u8]) -> Read {
        let read = match (self.is_session, self.is_socket) {
            (true, _) => return self.read_with_descriptors(into),
            (false, true) => rustix::net::recv(&self.fd, &mut *into, RecvFlags::DONTWAIT).map(|(length, _)| length),
            (false, false) => rustix::io::read(&self.fd, &mut *into),
        };
        match read {
            Ok(0) => Read::Ended,
            Ok(length) => Read::Some(length, Vec::new()),
            Err(Errno::INTR | Errno::WOULDBLOCK) => Read::NotYet,
            // Whatever it is: nothing more can come. A terminal whose last user is gone says EIO.
            Err(_) => Read::Ended,
        }
    }

    fn read_with_descriptors(&self, into: &mut [u8]) -> Read {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
        match recvmsg(&self.fd, &mut [IoSliceMut::new(into)], &mut control, flags) {
            Ok(received) if received.bytes > 0 => {
                let mut descriptors = Vec::new();
                for message in control.drain() {
                    if let RecvAncillaryMessage::ScmRights(passed) = message {
                        descriptors.extend(passed);
                    }
                }
                Read::Some(received.bytes, descriptors)
            }
            Err(Errno::INTR | Errno::WOULDBLOCK) => Read::NotYet,
            Ok(_) | Err(_) => Read::Ended,
        }
    }

    /// Writes what is on its way, as far as that is possible now: how much it was. An error if nobody takes it any more.
    pub(super) fn write(&mut self) -> Result<usize, Errno> {
        let mut written = 0;
        while self.writes && !self.inbound.is_empty() {
            match self.write_once() {
                Ok(length) => {
                    self.inbound.drain(..length);
                    written += length;
                }
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) => break,
                Err(errno) => return Err(errno),
            }
        }
        self.end_if_empty();
        Ok(written)
    }

    fn write_once(&mut self) -> Result<usize, Errno> {
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        if !self.is_socket {
            return rustix::io::write(&self.fd, &self.inbound);
        }
        if self.passed.is_empty() {
            return rustix::net::send(&self.fd, &self.inbound, flags);
        }
        let descriptors: Vec<_> = self.passed.iter().map(AsFd::as_fd).collect();
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MOST_DESCRIPTORS))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&descriptors));
        let sent = send_in_any_case(|| sendmsg(&self.fd, &[IoSlice::new(&self.inbound)], &mut control, flags))?;
        self.passed.clear();
        Ok(sent)
    }

    fn end_if_empty(&mut self) {
        if self.ended && self.writes && self.inbound.is_empty() {
            self.writes = false;
            if self.is_socket {
                // It may be closed already.
                let _ = rustix::net::shutdown(&self.fd, Shutdown::Write);
            }
        }
    }
}

impl AsFd for Local {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

pub(super) fn sockets() -> rustix::io::Result<(OwnedFd, OwnedFd)> {
    socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
}

/// The same pipe by a description of our own, whose waiting is nobody else's.
fn reopened(pipe: &OwnedFd, mode: OFlags) -> io::Result<OwnedFd> {
    let path = format!("/proc/self/fd/{}", pipe.as_raw_fd());
    Ok(rustix::fs::open(path, mode | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY, Mode::empty())?)
}
