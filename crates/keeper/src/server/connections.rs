//! Who is connected, and what they may ask for.

use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags};

use crate::channel::{Channel, ChannelError};
use crate::protocol::{Failed, Reason, Reply, Request};
use crate::transport::{Accepted, Standing, Transport};

const MOST_CONNECTIONS: usize = 256;
/// A client that lets this much pile up is not reading.
const MOST_UNREAD: usize = 1 << 20;

/// The number of the connection that a keeper is born with.
pub(super) const BIRTH: u64 = 0;

pub(super) struct Connections {
    open: Vec<Connection>,
    next_number: u64,
    gone: Vec<u64>,
    /// Whoever had the sandbox made has not asked for anything yet.
    is_first_awaited: bool,
}

struct Connection {
    number: u64,
    channel: Channel,
    standing: Standing,
    /// It has asked for something; before that nobody misses it.
    has_asked: bool,
    /// Something it asked for is not over with the answer, or is answered at the very end.
    awaits_more: bool,
    broken: bool,
}

impl Connections {
    /// With the one it was born with, if there is one.
    pub(super) fn new(birth: Option<Channel>) -> Self {
        let is_first_awaited = birth.is_some();
        let born_with = |channel| Connection {
            number: BIRTH,
            channel,
            standing: Standing::Full,
            has_asked: true,
            awaits_more: true,
            broken: false,
        };
        Self { open: birth.map(born_with).into_iter().collect(), is_first_awaited, next_number: 1, gone: Vec::new() }
    }

    pub(super) fn poll_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        self.open.iter().map(|c| {
            let wanted = if c.channel.has_outgoing() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN };
            PollFd::from_borrowed_fd(c.channel.as_fd(), wanted)
        })
    }

    /// Takes in one who knocks. Whether there may be another.
    pub(super) fn accept(&mut self, transport: &mut dyn Transport) -> bool {
        let (channel, standing) = match transport.accept() {
            Accepted::Client(channel, standing) => (channel, standing),
            Accepted::Refused => return true,
            Accepted::Nobody => return false,
        };
        if self.open.len() >= MOST_CONNECTIONS {
            // Whoever came first and never said anything makes room.
            let silent = self.open.iter().position(|c| !c.has_asked && !c.channel.has_frame());
            if let Some(index) = silent {
                self.gone.push(self.open.remove(index).number);
            }
        }
        if self.open.len() < MOST_CONNECTIONS {
            let number = self.next_number;
            let mut connection = Connection { number, channel, standing, has_asked: false, awaits_more: false, broken: false };
            self.next_number += 1;
            // The request usually has arrived with the connection.
            connection.read();
            self.open.push(connection);
        }
        true
    }

    /// Takes in everybody who has knocked, and nobody after them.
    pub(super) fn close_door(&mut self, transport: &mut dyn Transport) {
        transport.close();
        while self.accept(transport) {}
        self.read_and_write();
    }

    /// The keeper ends: everybody hears that after all that was said to them.
    pub(super) fn leave(&mut self) {
        self.read_and_write();
        self.open.clear();
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
            match connection.take_permitted() {
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

    /// Whether nothing that was said to this client is still on its way out of here.
    pub(super) fn has_taken_all(&self, client: u64) -> bool {
        self.open.iter().any(|c| c.number == client && !c.channel.has_outgoing())
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
    fn may_ask_for(&self, request: &Request) -> bool {
        self.standing == Standing::Full || matches!(request, Request::Stop { .. })
    }

    /// Requests that it may not make are answered here.
    fn take_permitted(&mut self) -> Result<Option<Request>, ChannelError> {
        while let Some(request) = self.channel.take_frame()? {
            if self.may_ask_for(&request) {
                return Ok(Some(request));
            }
            self.refuse()?;
        }
        Ok(None)
    }

    fn refuse(&mut self) -> Result<(), ChannelError> {
        let message = "the sandbox takes commands only from the PID namespace that it was started in; run the command there";
        let failed = Failed { reason: Reason::Refused, message: message.to_owned(), errno: 0 };
        self.channel.send_some(&Reply::Failed(failed), &[])?;
        if self.channel.unsent() > MOST_UNREAD { Err(ChannelError::Closed) } else { Ok(()) }
    }

    fn read(&mut self) {
        if self.channel.receive_some().is_err() {
            self.broken = true;
        }
    }
}
