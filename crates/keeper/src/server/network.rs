//! The listeners of the sandbox's network, and who serves them: a supervisor outside, if there is one.
//!
//! Nobody else accepts what arrives there, so without a supervisor nothing gets out.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::net::sockopt::set_socket_linger;
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, accept_with, recv, socket_with};
use whatif_types::network::Role;

/// How long somebody outside may take to start a supervisor. Which hosts the user's tools are set up for is asked meanwhile.
const PATIENCE: Duration = Duration::from_secs(20);
/// The same if nobody could be told: whoever started something in the background may be at it.
const FAINT_HOPE: Duration = Duration::from_secs(3);

#[derive(Debug)]
pub(super) struct Network {
    listeners: Vec<(Role, OwnedFd)>,
    supervisor: Option<u64>,
    /// Until then whoever waits inside waits for a supervisor.
    awaited_until: Option<Instant>,
    /// Somebody outside knows that one is wanted.
    is_told: bool,
}

impl Network {
    pub(super) fn new(listeners: Vec<(Role, OwnedFd)>) -> Self {
        Self { listeners, supervisor: None, awaited_until: None, is_told: false }
    }

    pub(super) fn poll_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        let is_ours = self.supervisor.is_none() && self.awaited_until.is_none();
        self.listeners.iter().filter(move |_| is_ours).map(|(_, listener)| PollFd::new(listener, PollFlags::IN))
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.awaited_until.filter(|_| self.supervisor.is_none())
    }

    /// Somebody inside wants the network, nobody serves it, and nobody was told. `is_ready`: something was seen at the listeners.
    pub(super) fn is_wanted(&self, is_ready: bool) -> bool {
        match self.awaited_until {
            Some(_) => !self.is_told,
            None => is_ready && self.supervisor.is_none(),
        }
    }

    /// Whether somebody outside was told that a supervisor is wanted.
    pub(super) fn await_supervisor(&mut self, is_told: bool) {
        self.is_told = is_told;
        if is_told {
            self.awaited_until = Some(Instant::now() + PATIENCE);
        } else {
            self.awaited_until.get_or_insert_with(|| Instant::now() + FAINT_HOPE);
        }
    }

    pub(super) fn has_waited_enough(&self) -> bool {
        self.next_deadline().is_some_and(|until| until <= Instant::now())
    }

    /// Whoever waits is refused: better than a wait for nothing.
    pub(super) fn turn_away(&mut self) {
        self.awaited_until = None;
        for (role, listener) in &self.listeners {
            match role {
                Role::Dns => while recv(listener, &mut [0_u8; 1][..], RecvFlags::DONTWAIT).is_ok() {},
                _ => {
                    while let Ok(connection) = accept_with(listener, SocketFlags::CLOEXEC) {
                        // Closed like this, the other side sees a reset.
                        let _ = set_socket_linger(&connection, Some(Duration::ZERO));
                    }
                }
            }
        }
    }

    /// The listeners, for a client that will serve them. There is only one at a time.
    pub(super) fn supervise(&mut self, client: u64) -> Option<(Vec<Role>, Vec<BorrowedFd<'_>>)> {
        if self.supervisor.is_some_and(|present| present != client) {
            return None;
        }
        self.supervisor = Some(client);
        self.awaited_until = None;
        Some(self.listeners.iter().map(|(role, listener)| (*role, listener.as_fd())).unzip())
    }

    /// With the supervisor goes whoever waited for it; whoever comes later may have another.
    pub(super) fn client_left(&mut self, client: u64) {
        if self.supervisor.take_if(|supervisor| *supervisor == client).is_some() {
            self.turn_away();
        }
    }
}

/// Fresh sockets of this network namespace, which they stay in wherever they go.
pub(super) fn sockets() -> rustix::io::Result<Vec<OwnedFd>> {
    let socket = |family| socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None);
    let mut sockets = vec![socket(AddressFamily::INET)?];
    sockets.extend(socket(AddressFamily::INET6));
    Ok(sockets)
}
