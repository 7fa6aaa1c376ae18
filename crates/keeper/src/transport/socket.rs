//! A unix socket in the sandbox's directory, and who may connect to it.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::net::{Shutdown, SocketFlags, accept_with};
use whatif_sys::peer;

use super::{Accepted, Standing, Transport};
use crate::channel::Channel;

#[derive(Debug)]
pub struct Socket {
    listener: OwnedFd,
    rule: PeerRule,
    /// It could not be shut, and asking it for somebody would wait for them.
    is_stuck: bool,
}

/// Who may command this keeper: a process with the credentials of the one that started it, in the same PID namespace.
#[derive(Debug)]
struct PeerRule {
    uid: u32,
    gid: u32,
    /// Our `fdinfo` as it is seen where we were started.
    descriptors: OwnedFd,
}

impl Socket {
    /// For clients like the one at the other end of the channel that the keeper was born with. `descriptors` is our
    /// `/proc/self/fdinfo` outside: it tells who connects.
    pub fn new(listener: OwnedFd, birth: &Channel, descriptors: OwnedFd) -> io::Result<Self> {
        let peer = peer::of(birth.as_fd())?;
        Ok(Self { listener, rule: PeerRule { uid: peer.uid, gid: peer.gid, descriptors }, is_stuck: false })
    }
}

impl PeerRule {
    /// Seen from our namespaces, a peer outside our PID namespace has pid 0, and no process inside has. One of another sandbox has it
    /// too, and may have the same ids.
    fn standing_of(&self, socket: &OwnedFd) -> Option<Standing> {
        let has_right_ids = |peer: peer::Peer| peer.pid == 0 && peer.uid == self.uid && peer.gid == self.gid;
        if !peer::of(socket).is_ok_and(has_right_ids) {
            return None;
        }
        match peer::is_in_namespace(socket, &self.descriptors) {
            Ok(true) => Some(Standing::Full),
            // Before Linux 6.5 only the ids tell.
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Some(Standing::Full),
            Ok(false) | Err(_) => Some(Standing::MayStop),
        }
    }
}

impl Transport for Socket {
    fn poll_fds(&self) -> Vec<PollFd<'_>> {
        vec![PollFd::from_borrowed_fd(self.listener.as_fd(), PollFlags::IN)]
    }

    fn work(&mut self) {}

    fn accept(&mut self) -> Accepted {
        if self.is_stuck {
            return Accepted::Nobody;
        }
        let Ok(socket) = accept_with(&self.listener, SocketFlags::CLOEXEC) else { return Accepted::Nobody };
        match self.rule.standing_of(&socket) {
            Some(standing) => Accepted::Client(Channel::new(socket), standing),
            None => Accepted::Refused,
        }
    }

    fn has_more(&self) -> bool {
        false
    }

    /// Who comes later is refused by the kernel.
    fn close(&mut self) {
        self.is_stuck = rustix::net::shutdown(&self.listener, Shutdown::Read).is_err();
    }

    fn is_over(&self) -> bool {
        false
    }

    /// The kernel keeps it for them.
    fn finish(&mut self) {}
}
