//! How clients reach a keeper: by a unix socket with descriptors, or through one stream of bytes. Whichever it is, each client is a
//! `Channel`.

mod socket;
mod stream;

pub use self::socket::Socket;
pub use self::stream::Stream;

use rustix::event::PollFd;

use crate::channel::Channel;

/// The keeper's side. Nothing here waits, except `finish`, which is called once and for a moment.
pub trait Transport: std::fmt::Debug {
    /// What to wait for. When one of them is ready, `work` is called, and then `accept`.
    fn poll_fds(&self) -> Vec<PollFd<'_>>;

    /// Moves what can be moved now.
    fn work(&mut self);

    /// One who knocks.
    fn accept(&mut self) -> Accepted;

    /// Whether somebody else is known to knock. Otherwise `accept` is called again when something is ready.
    fn has_more(&self) -> bool;

    /// Lets nobody in any more, except those who have knocked.
    fn close(&mut self);

    /// Whether nobody can come any more.
    fn is_over(&self) -> bool;

    /// The keeper ends: what was said last has to reach those it was said to.
    fn finish(&mut self);
}

#[derive(Debug)]
pub enum Accepted {
    Client(Channel, Standing),
    /// Somebody was turned away; there may be another.
    Refused,
    Nobody,
}

/// What a client may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    Full,
    /// It runs in another PID namespace: in a container that shares the state directory, or in another sandbox. The former cannot end
    /// us by a signal, so it may ask us to stop.
    MayStop,
}
