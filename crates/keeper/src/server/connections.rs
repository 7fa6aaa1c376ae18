//! Who is connected, and whether they may be.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};
use rustix::net::{Shutdown, SocketFlags, accept_with};
use whatif_sys::peer;

use crate::channel::Channel;
use crate::protocol::{Reply, Request};

const MOST_CONNECTIONS: usize = 256;
/// A client that lets this much pile up is not reading.
const MOST_UNREAD: usize = 1 << 20;

/// Who may command this keeper: whoever shares the credentials of the one who started it, from outside the sandbox.
#[derive(Clone, Copy, Debug)]
pub(super) struct PeerRule {
    uid: u32,
    gid: u32,
}

impl PeerRule {
    pub(super) fn learn_from(birth: &Channel) -> io::Result<Self> {
        let peer = peer::of(birth.as_fd())?;
        Ok(Self { uid: peer.uid, gid: peer.gid })
    }

    /// Seen from our namespaces, a peer outside our PID namespace has pid 0, and nobody inside has.
    fn admits(self, socket: &OwnedFd) -> bool {
        peer::of(socket).is_ok_and(|peer| peer.pid == 0 && peer.uid == self.uid && peer.gid == self.gid)
    }
}

/// The number of the connection that a keeper is born with.
const BIRTH: u64 = 0;

pub(super) struct Connections {
    rule: PeerRule,
    open: Vec<Connection>,
    next_number: u64,
    gone: Vec<u64>,
    /// Whoever had the sandbox made has not asked for anything yet.
    is_first_awaited: bool,
}

struct Connection {
    number: u64,
    channel: Channel,
    /// It has asked for something; before that nobody misses it.
    has_asked: bool,
    /// Something it asked for is not over with the answer, or is answered at the very end.
    awaits_more: bool,
    broken: bool,
}

impl Connections {
    pub(super) fn new(rule: PeerRule, birth: Channel) -> Self {
        Self {
            rule,
            open: vec![Connection { number: BIRTH, channel: birth, has_asked: true, awaits_more: true, broken: false }],
            is_first_awaited: true,
            next_number: 1,
            gone: Vec::new(),
        }
    }

    pub(super) fn poll_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.open.iter().map(|c| {
            let wanted = if c.channel.has_outgoing() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
            PollFd::from_borrowed_fd(c.channel.as_fd(), wanted)
        })
    }

    /// Takes in one who knocks. Whether there may be another.
    pub(super) fn accept(&mut self, listener: &OwnedFd) -> bool {
        let Ok(socket) = accept_with(listener, SocketFlags::CLOEXEC) else { return false };
        if !self.rule.admits(&socket) {
            return true;
        }
        if self.open.len() >= MOST_CONNECTIONS {
            // Whoever came first and never said anything makes room.
            let silent = self.open.iter().position(|c| !c.has_asked && !c.channel.has_frame());
            if let Some(index) = silent {
                self.gone.push(self.open.remove(index).number);
            }
        }
        if self.open.len() < MOST_CONNECTIONS {
            let (number, channel) = (self.next_number, Channel::new(socket));
            let mut connection = Connection { number, channel, has_asked: false, awaits_more: false, broken: false };
            self.next_number += 1;
            // The request usually has arrived with the connection.
            connection.read();
            self.open.push(connection);
        }
        true
    }

    /// Takes in everybody who has knocked; who comes later is refused by the kernel.
    pub(super) fn close_door(&mut self, listener: &OwnedFd) {
        if rustix::net::shutdown(listener, Shutdown::Read).is_ok() {
            while self.accept(listener) {}
        }
        self.read_and_write();
    }

    /// Whether the one for whom the sandbox was made is there and has yet to say what for.
    pub(super) fn awaits_the_first(&self) -> bool {
        self.is_first_awaited && self.open.iter().any(|c| c.number == BIRTH && !c.broken)
    }

    /// An answer for those who are connected and have not got to their question, or to the next one.
    pub(super) fn tell_the_idle(&mut self, reply: &Reply) {
        for connection in self.open.iter_mut().filter(|c| !c.awaits_more) {
            connection.broken |= connection.channel.send_some(reply, &[]).is_err();
        }
    }

    pub(super) fn read_and_write(&mut self) {
        for connection in &mut self.open {
            connection.read();
            if connection.channel.flush().is_err() {
                connection.broken = true;
            }
        }
    }

    /// The next request of any client, in the order of the connections.
    pub(super) fn next_request(&mut self) -> Option<(u64, Request)> {
        for connection in &mut self.open {
            match connection.channel.take_frame::<Request>() {
                Ok(Some(request)) => {
                    connection.has_asked = true;
                    self.is_first_awaited &= connection.number != BIRTH;
                    connection.awaits_more |= request.outlasts_its_answer();
                    return Some((connection.number, request));
                }
                Ok(None) => {}
                Err(_) => connection.broken = true,
            }
        }
        None
    }

    pub(super) fn take_descriptor(&mut self, client: u64) -> Option<OwnedFd> {
        self.find(client)?.channel.take_descriptor()
    }

    pub(super) fn send(&mut self, client: u64, reply: &Reply, descriptors: &[BorrowedFd<'_>]) {
        if let Some(connection) = self.find(client) {
            let sent = connection.channel.send_some(reply, descriptors);
            connection.broken |= sent.is_err() || connection.channel.unsent() > MOST_UNREAD;
        }
    }

    /// The clients that left since the last call.
    pub(super) fn take_gone(&mut self) -> Vec<u64> {
        let gone = &mut self.gone;
        self.open.retain(|c| {
            if c.broken {
                gone.push(c.number);
            }
            !c.broken
        });
        std::mem::take(gone)
    }

    fn find(&mut self, client: u64) -> Option<&mut Connection> {
        self.open.iter_mut().find(|c| c.number == client)
    }
}

impl Connection {
    fn read(&mut self) {
        if self.channel.receive_some().is_err() {
            self.broken = true;
        }
    }
}
