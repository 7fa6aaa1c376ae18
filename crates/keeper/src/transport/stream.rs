//! One stream of bytes that carries every client. Whoever has its other end may ask for everything.

use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, Timespec, poll};

use super::{Accepted, Standing, Transport};
use crate::channel::Channel;
use crate::stream::StreamError;
use crate::stream::mux::Side;
use crate::stream::relay::{Relay, Sharing};

/// How long the other side may take to hear what was said last.
const LAST_WORDS: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub struct Stream {
    relay: Relay,
    is_closed: bool,
}

impl Stream {
    /// Read from one descriptor and written to another, which may be the same.
    pub fn new(input: OwnedFd, output: OwnedFd) -> Result<Self, StreamError> {
        Ok(Self { relay: Relay::new(Side::Keeper, input, output, Sharing::Ours)?, is_closed: false })
    }
}

impl Transport for Stream {
    fn poll_fds(&self) -> Vec<PollFd<'_>> {
        self.relay.poll_fds()
    }

    fn work(&mut self) {
        self.relay.work();
    }

    fn accept(&mut self) -> Accepted {
        match self.relay.take_begun() {
            Some(_) if self.is_closed => Accepted::Refused,
            Some(socket) => Accepted::Client(Channel::new(socket), Standing::Full),
            None => Accepted::Nobody,
        }
    }

    fn has_more(&self) -> bool {
        self.relay.has_begun()
    }

    fn close(&mut self) {
        self.relay.work();
    }

    fn is_over(&self) -> bool {
        self.relay.over().is_some()
    }

    fn finish(&mut self) {
        self.is_closed = true;
        let deadline = Instant::now() + LAST_WORDS;
        loop {
            self.relay.work();
            let left = deadline.saturating_duration_since(Instant::now());
            if self.is_over() || self.relay.has_said_all() || left.is_zero() {
                return;
            }
            let timeout = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: left.subsec_nanos().into() };
            // Interrupted or not, the time is looked at.
            let _ = poll(&mut self.relay.poll_fds(), Some(&timeout));
        }
    }
}
