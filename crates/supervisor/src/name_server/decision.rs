//! What one question is answered with.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::{SystemTime, UNIX_EPOCH};

use whatif_netpolicy::dns::{Answer, Family, Kind, Query, Transport, reverse};
use whatif_netpolicy::policy::{Decision, Reason, Request};
use whatif_netpolicy::{HostName, Policy};
use whatif_types::network::{Event, EventKind, Protocol};

use super::{NameServer, Surroundings};
use crate::resolver::{ResolveError, is_loopback};

/// In seconds. A name can lose its stand-in to others, and what exists outside can change, so answers should not be remembered
/// for long; none at all would make a program that opens many connections ask before each. Rules need no short time here:
/// they are asked anew for each connection.
const TTL: u32 = 5;

/// An answer with all that is in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    Address(IpAddr),
    Name(HostName),
    Empty,
    NxDomain,
    ServFail,
    Refused,
}

impl Reply {
    pub(super) fn write(&self, query: &Query, transport: Transport) -> Vec<u8> {
        let answer = match self {
            Self::Address(IpAddr::V4(v4)) => Answer::A { addresses: std::slice::from_ref(v4), ttl: TTL },
            Self::Address(IpAddr::V6(v6)) => Answer::Aaaa { addresses: std::slice::from_ref(v6), ttl: TTL },
            Self::Name(name) => Answer::Ptr { name, ttl: TTL },
            Self::Empty => Answer::Empty,
            Self::NxDomain => Answer::NxDomain,
            Self::ServFail => Answer::ServFail,
            Self::Refused => Answer::Refused,
        };
        query.answer(&answer, transport)
    }
}

impl<S: Surroundings> NameServer<S> {
    pub(super) async fn reply(&self, query: &Query, from: SocketAddr) -> Reply {
        if is_loopback(&query.name) {
            return loopback(query.kind);
        }
        if reverse::is_reverse(&query.name) {
            return self.name_of_address(query);
        }
        let family = match query.kind {
            Kind::A => Some(Family::V4),
            Kind::Aaaa => Some(Family::V6),
            Kind::Ptr | Kind::Other(_) => None,
        };
        let policy = self.surroundings.policy();
        let verdict = Verdict::of(&policy, &query.name);
        self.record(verdict.event(&query.name), &query.name, from);
        match (verdict, family) {
            // It is for the person who wrote the rule that this is said; "no such name" would be a lie, and one that programs
            // and caches inside remember when the rule is gone.
            (Verdict::DeniedByRule { .. }, _) => Reply::Refused,
            // Text, mail servers, keys: nothing inside can use them without connecting, and asking for them is how data leaves.
            (_, None) => Reply::Empty,
            (Verdict::NoRule { .. }, Some(family)) => self.stand_in(&query.name, family),
            (Verdict::Allowed { .. }, Some(family)) => self.resolve(&query.name, family).await,
        }
    }

    async fn resolve(&self, name: &HostName, family: Family) -> Reply {
        if self.surroundings.is_resolved_by_proxy(name) {
            return self.stand_in(name, family);
        }
        match self.resolver.lookup(name, family).await {
            Ok(addresses) if addresses.is_empty() => Reply::Empty,
            Ok(_) => self.stand_in(name, family),
            Err(ResolveError::NoSuchName | ResolveError::Loopback) => Reply::NxDomain,
            Err(ResolveError::NoAddress) => Reply::Empty,
            Err(ResolveError::NoAnswer | ResolveError::Unhelpful | ResolveError::TooMany) => Reply::ServFail,
        }
    }

    fn stand_in(&self, name: &HostName, family: Family) -> Reply {
        match self.names().assign(name) {
            Ok(stand_in) => Reply::Address(match family {
                Family::V4 => stand_in.ipv4.into(),
                Family::V6 => stand_in.ipv6.into(),
            }),
            Err(_) => Reply::ServFail,
        }
    }

    /// Only this table knows what its addresses stand for, and who else is asked learns which addresses somebody here has.
    fn name_of_address(&self, query: &Query) -> Reply {
        if query.kind != Kind::Ptr {
            return Reply::Empty;
        }
        let Some(address) = reverse::address_of(&query.name) else { return Reply::NxDomain };
        if address.is_loopback() {
            return "localhost".parse().map_or(Reply::NxDomain, Reply::Name);
        }
        self.names().name_of(address).cloned().map_or(Reply::NxDomain, Reply::Name)
    }
}

/// The sandbox's own loopback, which needs nobody's leave.
fn loopback(kind: Kind) -> Reply {
    match kind {
        Kind::A => Reply::Address(Ipv4Addr::LOCALHOST.into()),
        Kind::Aaaa => Reply::Address(Ipv6Addr::LOCALHOST.into()),
        Kind::Ptr | Kind::Other(_) => Reply::Empty,
    }
}

enum Verdict {
    Allowed { rule: String },
    NoRule { because: String, hint: Option<String> },
    DeniedByRule { because: String },
}

impl Verdict {
    fn of(policy: &Policy, name: &HostName) -> Self {
        match policy.decide(&Request::Resolve { name }) {
            Decision::Allow { because } => Self::Allowed { rule: because.to_string() },
            Decision::Deny { because: reason @ Reason::DeniedBy { .. }, .. } => Self::DeniedByRule { because: reason.to_string() },
            Decision::Deny { because, hint } => Self::NoRule { because: because.to_string(), hint },
        }
    }

    fn event(&self, name: &HostName) -> Event {
        let (allowed, because, hint) = match self {
            Self::Allowed { rule } => (true, rule, None),
            Self::NoRule { because, hint } => (false, because, hint.clone()),
            Self::DeniedByRule { because } => (false, because, None),
        };
        Event { host: name.to_string(), allowed, because: because.clone(), hint, ..event(EventKind::Resolve) }
    }
}

/// That so many names were asked for of which nothing else is recorded.
pub(super) fn omission(lines: u64) -> Event {
    Event { because: "too many names were asked for".to_owned(), sent: lines, ..event(EventKind::Omitted) }
}

fn event(kind: EventKind) -> Event {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Event {
        at_ms: u64::try_from(now.as_millis()).unwrap_or(u64::MAX),
        id: 0,
        kind,
        protocol: Protocol::Dns,
        host: String::new(),
        port: None,
        address: None,
        allowed: false,
        because: String::new(),
        hint: None,
        who: None,
        sent: 0,
        received: 0,
        repeats: 0,
    }
}
