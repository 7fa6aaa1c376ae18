//! The name server of a sandbox.
//!
//! A name that a rule allows is resolved outside before the answer goes in, so that names that do not exist, and families that
//! a name has no address in, look inside as they do outside. The answer itself is always an address that stands for the name.
//! A name that no rule allows gets such an address too, without anybody outside being asked: the connection that follows says
//! the port, which makes for a better question and a better hint than a name alone. Nothing of what is asked here ever leaves
//! the machine unless a rule is about that very name.

mod decision;
mod quota;
mod repeats;
mod tcp;
mod udp;

use std::fmt;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::sync::Semaphore;
use whatif_netpolicy::dns::{Query, Transport};
use whatif_netpolicy::synthetic::SyntheticTable;
use whatif_netpolicy::{HostName, Policy};
use whatif_types::network::Event;

use self::quota::{Quota, Room};
use self::repeats::Repeats;
use crate::resolver::Resolver;

/// Questions under way, whatever way they came. More are dropped, and who asked asks again.
const MOST_QUESTIONS: usize = 256;
const MOST_CONNECTIONS: usize = 64;

/// What the name server needs of the rest of the supervisor.
pub trait Surroundings: Send + Sync + 'static {
    /// What holds now.
    fn policy(&self) -> Arc<Policy>;

    fn names(&self) -> &Mutex<SyntheticTable>;

    /// Called before the answer is sent, once in a while for each name, and never for very many names. The number and who asked are left to the log; `from` is
    /// the socket inside that asked.
    fn record(&self, event: Event, from: SocketAddr);

    /// Whether connections to this name go through a proxy of the user's, which resolves it. Where that is so, this machine
    /// may know no names at all.
    fn is_resolved_by_proxy(&self, _name: &HostName) -> bool {
        false
    }
}

pub struct NameServer<S> {
    surroundings: Arc<S>,
    resolver: Resolver,
    questions: Arc<Semaphore>,
    connections: Semaphore,
    recorded: Mutex<Recorded>,
}

/// What was recorded, to know what need not be.
#[derive(Debug, Default)]
struct Recorded {
    repeats: Repeats,
    quota: Quota,
}

impl<S> fmt::Debug for NameServer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NameServer").field("resolver", &self.resolver).finish_non_exhaustive()
    }
}

impl<S: Surroundings> NameServer<S> {
    #[must_use]
    pub fn new(surroundings: Arc<S>, resolver: Resolver) -> Arc<Self> {
        Arc::new(Self {
            surroundings,
            resolver,
            questions: Arc::new(Semaphore::new(MOST_QUESTIONS)),
            connections: Semaphore::new(MOST_CONNECTIONS),
            recorded: Mutex::default(),
        })
    }

    /// The bytes to send back, over TCP with their length in front; `None` for what deserves no answer.
    async fn answer(&self, message: &[u8], transport: Transport, from: SocketAddr) -> Option<Vec<u8>> {
        match Query::parse(message) {
            Ok(query) => Some(self.reply(&query, from).await.write(&query, transport)),
            Err(rejected) => rejected.reply.map(|reply| match transport {
                Transport::Udp => reply,
                Transport::Tcp => [&u16::try_from(reply.len()).unwrap_or(u16::MAX).to_be_bytes()[..], &reply].concat(),
            }),
        }
    }

    fn record(&self, event: Event, name: &HostName, from: SocketAddr) {
        let now = Instant::now();
        let mut recorded = self.recorded.lock().unwrap_or_else(PoisonError::into_inner);
        if !recorded.repeats.is_new(name, event.allowed, now) {
            return;
        }
        let event = match recorded.quota.take(now) {
            Room::Enough => event,
            Room::None => return,
            Room::NoneFor(lines) => decision::omission(lines),
        };
        drop(recorded);
        self.surroundings.record(event, from);
    }

    fn names(&self) -> MutexGuard<'_, SyntheticTable> {
        self.surroundings.names().lock().unwrap_or_else(PoisonError::into_inner)
    }
}
