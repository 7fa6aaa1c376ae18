//! The connections that are open now: how many there may be, and which of them new rules end.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;
use whatif_netpolicy::tls::ClientHello;
use whatif_netpolicy::{Host, Request};
use whatif_types::network::{Event, EventKind, Who};

use crate::allowance::Allowance;
use crate::log::{Log, now_ms};
use crate::relay::Traffic;
use crate::rules::LiveRules;
use crate::slots::Slots;
use crate::verdict::{Denial, judge};

/// At once, that come in by published ports. They have places of their own: clients outside that stay at a silent server
/// must not keep the sandbox from connecting.
const MOST_PUBLISHED: usize = 512;
const SHARE_PUBLISHED: usize = 8;
/// Descriptors for all else: listeners, pipes, questions for names.
const OTHER_DESCRIPTORS: usize = 192;

#[derive(Debug)]
pub(crate) struct Connections {
    live: Mutex<HashMap<u64, Live>>,
    pub(crate) outgoing: Slots,
    pub(crate) published: Slots,
    allowance: Allowance,
    log: Arc<Log>,
}

#[derive(Debug)]
struct Live {
    /// The line with which it was allowed.
    opened: Event,
    judged: Judged,
    traffic: Arc<Traffic>,
    cut: oneshot::Sender<String>,
}

/// What a connection was allowed as, to be judged again when the rules change.
#[derive(Clone, Debug)]
pub(crate) struct Judged {
    pub(crate) host: Host,
    pub(crate) port: u16,
    pub(crate) nature: Nature,
    pub(crate) address: Option<IpAddr>,
}

#[derive(Clone, Debug)]
pub(crate) enum Nature {
    /// To an address, whatever is said.
    Address,
    Tls(Box<ClientHello>),
    /// Each request is judged when it comes.
    Http,
    Opaque,
    /// To the host's loopback.
    Reach,
}

impl Judged {
    /// Whether all that was asked is still allowed.
    pub(crate) fn check(&self, rules: &LiveRules) -> Result<(), Denial> {
        let (target, port) = (&self.host, self.port);
        if matches!(self.nature, Nature::Reach) {
            return if rules.reaches(port) {
                Ok(())
            } else {
                Err(Denial::plain(format!("localhost:{port} can no longer be reached")))
            };
        }
        let policy = rules.policy();
        let request = match &self.nature {
            Nature::Tls(hello) => Request::Tls { target, port, hello },
            Nature::Opaque => Request::Opaque { target, port },
            Nature::Address | Nature::Http | Nature::Reach => Request::Connect { target, port },
        };
        judge(&policy, &request)?;
        if let (Host::Name(name), Some(address)) = (target, self.address) {
            judge(&policy, &Request::Resolved { name, address, port })?;
        }
        Ok(())
    }
}

/// An open connection. Its end is recorded with [`Open::close`].
#[derive(Debug)]
pub(crate) struct Open {
    id: u64,
    connections: Arc<Connections>,
    pub(crate) traffic: Arc<Traffic>,
    /// Resolves with the reason when the connection has to end.
    pub(crate) cut: oneshot::Receiver<String>,
}

impl Connections {
    /// Each connection takes two of the descriptors that this process may have.
    pub(crate) fn new(log: Arc<Log>, allowance: Allowance, descriptors: usize) -> Arc<Self> {
        let places = (descriptors.saturating_sub(OTHER_DESCRIPTORS) / 2).max(2);
        let published = MOST_PUBLISHED.min(places / SHARE_PUBLISHED).max(1);
        let outgoing = Slots::new(allowance.connections.min(places - published));
        Arc::new(Self { live: Mutex::default(), outgoing, published: Slots::new(published), allowance, log })
    }

    pub(crate) fn log(&self) -> Arc<Log> {
        Arc::clone(&self.log)
    }

    pub(crate) fn count(&self) -> usize {
        self.outgoing.taken() + self.published.taken()
    }

    /// How large the buffers of the next socket may be.
    pub(crate) fn buffer(&self) -> usize {
        self.allowance.buffer(self.count())
    }

    pub(crate) fn turned_away(&self) -> u64 {
        self.outgoing.turned_away() + self.published.turned_away()
    }

    /// Records that a connection was allowed, and keeps it in view.
    pub(crate) fn open(self: &Arc<Self>, opened: Event, judged: Judged) -> Open {
        let (cut, is_cut) = oneshot::channel();
        let traffic = Arc::new(Traffic::default());
        let id = opened.id;
        self.log.record(opened.clone());
        self.live().insert(id, Live { opened, judged, traffic: Arc::clone(&traffic), cut });
        Open { id, connections: Arc::clone(self), traffic, cut: is_cut }
    }

    /// Cuts what the rules no longer allow, and says how many that were.
    pub(crate) fn review(&self, rules: &LiveRules) -> usize {
        let mut live = self.live();
        let denied: Vec<(u64, String)> =
            live.iter().filter_map(|(id, one)| one.judged.check(rules).err().map(|denial| (*id, denial.because))).collect();
        for (id, because) in &denied {
            if let Some(one) = live.remove(id) {
                self.log.record(one.closed(because.clone(), None));
                let _ = one.cut.send(because.clone());
            }
        }
        denied.len()
    }

    /// The sandbox is gone: the last lines.
    pub(crate) fn finish(&self) {
        for (_, one) in self.live().drain() {
            self.log.record(one.closed("the sandbox ended".to_owned(), None));
        }
    }

    fn live(&self) -> MutexGuard<'_, HashMap<u64, Live>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Live {
    fn closed(&self, because: String, who: Option<Who>) -> Event {
        Event {
            at_ms: now_ms(),
            kind: EventKind::Closed,
            because,
            who: self.opened.who.clone().or(who),
            sent: self.traffic.sent.load(Ordering::Relaxed),
            received: self.traffic.received.load(Ordering::Relaxed),
            ..self.opened.clone()
        }
    }
}

impl Open {
    /// `because` is empty where it ended by itself.
    pub(crate) fn close(self, because: String, who: Option<Who>) {
        // One that was cut has its line already.
        let taken = self.connections.live().remove(&self.id);
        if let Some(one) = taken {
            self.connections.log.record(one.closed(because, who));
        }
    }
}
