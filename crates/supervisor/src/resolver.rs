//! Finds the addresses of names, outside: first in `/etc/hosts`, then at the name servers of `/etc/resolv.conf`.
//!
//! The C library's resolver is not used. It cannot be given up half-way, it decides by itself where a question goes, and
//! statically linked it has no modules. So names that only such modules know (mDNS, a directory service) are not found.
//!
//! Names are taken as they are: one with a dot is never tried with the host's search list behind it, or a rule for
//! `example.com` would be one for `example.com.corp.example` too.

mod cache;
mod exchange;
mod hosts;
mod resolv_conf;
mod system;

use std::net::IpAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout, timeout_at};
use whatif_netpolicy::HostName;
pub use whatif_netpolicy::dns::Family;
use whatif_netpolicy::dns::Found;

use self::cache::{Cache, Outcome};
use self::resolv_conf::Servers;
use self::system::System;

/// Questions under way outside. A socket each, so the sandbox cannot use up descriptors by asking.
const MOST_QUESTIONS: usize = 64;
/// For one name, all servers and attempts together. Nobody inside waits longer.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long the other family is waited for once one has addresses: some servers never answer for IPv6.
const SECOND_FAMILY: Duration = Duration::from_millis(300);

/// Where the host keeps what it knows of names.
#[derive(Clone, Debug)]
pub struct Files {
    pub hosts: PathBuf,
    pub resolv_conf: PathBuf,
}

impl Default for Files {
    fn default() -> Self {
        Self { hosts: "/etc/hosts".into(), resolv_conf: "/etc/resolv.conf".into() }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ResolveError {
    #[error("the name does not exist")]
    NoSuchName,
    #[error("the name has no address")]
    NoAddress,
    #[error("the name stands for this machine itself")]
    Loopback,
    #[error("no name server answered")]
    NoAnswer,
    #[error("the name servers could not say")]
    Unhelpful,
    #[error("too many names are being looked up")]
    TooMany,
}

/// Cheap to clone; all clones share what they have found. Whatever is under way ends when nobody waits for it any more.
#[derive(Clone, Debug)]
pub struct Resolver {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    system: System,
    cache: Cache,
    questions: Semaphore,
}

impl Resolver {
    #[must_use]
    pub fn new(files: Files) -> Self {
        let shared = Shared { system: System::new(files), cache: Cache::default(), questions: Semaphore::new(MOST_QUESTIONS) };
        Self { shared: Arc::new(shared) }
    }

    /// The names that the host's own file gives to an address.
    #[must_use]
    pub fn written_down(&self, address: IpAddr) -> Vec<HostName> {
        self.shared.system.read().0.hosts.names(address)
    }

    /// The addresses of both families, IPv4 first; at least one.
    ///
    /// # Errors
    /// If there is none, or it could not be found out.
    pub async fn resolve(&self, name: &HostName) -> Result<Vec<IpAddr>, ResolveError> {
        let mut v4 = pin!(self.lookup(name, Family::V4));
        let mut v6 = pin!(self.lookup(name, Family::V6));
        let has_some = |outcome: &Outcome| outcome.as_ref().is_ok_and(|addresses| !addresses.is_empty());
        let missing = Err(ResolveError::NoAnswer);
        let (v4, v6) = tokio::select! {
            first = &mut v4 => {
                let second = if has_some(&first) { timeout(SECOND_FAMILY, v6).await.unwrap_or(missing) } else { v6.await };
                (first, second)
            }
            first = &mut v6 => {
                let second = if has_some(&first) { timeout(SECOND_FAMILY, v4).await.unwrap_or(missing) } else { v4.await };
                (second, first)
            }
        };
        combine(v4, v6)
    }

    /// The addresses of one family; none if the name exists without.
    ///
    /// # Errors
    /// If the name does not exist, or it could not be found out.
    pub async fn lookup(&self, name: &HostName, family: Family) -> Result<Vec<IpAddr>, ResolveError> {
        if is_loopback(name) {
            return Err(ResolveError::Loopback);
        }
        let shared = &self.shared;
        let (known, is_new) = shared.system.read();
        if is_new {
            shared.cache.clear();
        }
        if let Some(addresses) = known.hosts.addresses(name) {
            return Ok(addresses.iter().copied().filter(|address| family.includes(address)).collect());
        }
        shared.cache.get_or_ask(name, family, || shared.ask(&known.servers, name, family)).await
    }
}

/// Names that mean the machine itself (RFC 6761). Which machine would be the question.
pub(crate) fn is_loopback(name: &HostName) -> bool {
    let name = name.as_str();
    name == "localhost" || name.ends_with(".localhost")
}

fn combine(v4: Outcome, v6: Outcome) -> Result<Vec<IpAddr>, ResolveError> {
    match (v4, v6) {
        (Ok(v4), Ok(v6)) if v4.is_empty() && v6.is_empty() => Err(ResolveError::NoAddress),
        (Ok(v4), Ok(v6)) => Ok([v4, v6].concat()),
        (Ok(some), Err(_)) | (Err(_), Ok(some)) if !some.is_empty() => Ok(some),
        // What is certain is worth less than what is not known: there may be addresses yet.
        (Err(ResolveError::NoSuchName), Err(other)) | (Err(other), _) | (_, Err(other)) => Err(other),
    }
}

impl Shared {
    /// Asks outside, within bounds of number and time. Says for how many seconds the answer holds.
    async fn ask(&self, servers: &Servers, name: &HostName, family: Family) -> (Outcome, u32) {
        let deadline = Instant::now() + PATIENCE;
        let Ok(Ok(_permit)) = timeout_at(deadline, self.questions.acquire()).await else { return (Err(ResolveError::TooMany), 0) };
        match timeout_at(deadline, ask_candidates(servers, name, family)).await {
            Ok(Ok((addresses, ttl))) => (Ok(addresses), ttl),
            Ok(Err(error)) => (Err(error), 0),
            Err(_) => (Err(ResolveError::NoAnswer), 0),
        }
    }
}

/// A name of one part is tried below each domain of the search list first, as every program of the host does.
async fn ask_candidates(servers: &Servers, name: &HostName, family: Family) -> Result<(Vec<IpAddr>, u32), ResolveError> {
    let mut conclusion = ResolveError::NoSuchName;
    let mut exists = false;
    for candidate in candidates(servers, name) {
        match ask_servers(servers, &candidate, family).await {
            Ok((addresses, ttl)) if !addresses.is_empty() => return Ok((addresses, ttl)),
            Ok(_) => exists = true,
            Err(ResolveError::NoSuchName) => {}
            Err(error) => conclusion = error,
        }
    }
    if exists && conclusion == ResolveError::NoSuchName { Ok((Vec::new(), 0)) } else { Err(conclusion) }
}

fn candidates(servers: &Servers, name: &HostName) -> Vec<HostName> {
    let mut candidates = Vec::new();
    if !name.as_str().contains('.') {
        candidates.extend(servers.search.iter().filter_map(|domain| format!("{name}.{domain}").parse().ok()));
    }
    candidates.push(name.clone());
    candidates
}

async fn ask_servers(servers: &Servers, name: &HostName, family: Family) -> Result<(Vec<IpAddr>, u32), ResolveError> {
    let mut conclusion = ResolveError::NoAnswer;
    for _ in 0..servers.attempts {
        for server in &servers.addresses {
            let exchange = exchange::ask(*server, servers.transport, name, family);
            match timeout(servers.timeout, exchange).await {
                Ok(Ok(Found::Addresses { addresses, ttl })) => return Ok((addresses, ttl)),
                Ok(Ok(Found::NoSuchName)) => return Err(ResolveError::NoSuchName),
                Ok(Ok(Found::Truncated | Found::NotUnderstood | Found::Unhelpful { .. })) => conclusion = ResolveError::Unhelpful,
                // Too late, unreachable, or nonsense.
                Ok(Err(_)) | Err(_) => {}
            }
        }
    }
    Err(conclusion)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn what_both_families_say_together() {
        use ResolveError::{NoAddress, NoAnswer, NoSuchName, Unhelpful};
        let (four, six) = (addresses(&["192.0.2.1"]), addresses(&["2001:db8::1"]));
        let both = addresses(&["192.0.2.1", "2001:db8::1"]);
        for (v4, v6, expected) in [
            (Ok(four.clone()), Ok(six.clone()), Ok(both)),
            (Ok(four.clone()), Ok(vec![]), Ok(four.clone())),
            (Ok(four.clone()), Err(NoAnswer), Ok(four.clone())),
            (Ok(four.clone()), Err(NoSuchName), Ok(four)),
            (Err(Unhelpful), Ok(six.clone()), Ok(six)),
            (Ok(vec![]), Ok(vec![]), Err(NoAddress)),
            (Err(NoSuchName), Err(NoSuchName), Err(NoSuchName)),
            (Err(NoSuchName), Err(NoAnswer), Err(NoAnswer)),
            (Err(NoAnswer), Err(NoSuchName), Err(NoAnswer)),
            (Ok(vec![]), Err(Unhelpful), Err(Unhelpful)),
            (Err(NoAnswer), Ok(vec![]), Err(NoAnswer)),
        ] {
            assert_eq!(combine(v4.clone(), v6.clone()), expected, "{v4:?} and {v6:?}");
        }
    }

    #[test]
    fn only_names_of_one_part_are_searched_for() {
        let servers = Servers { search: vec!["corp.example".parse().unwrap(), "example".parse().unwrap()], ..Servers::default() };
        let texts = |name: &str| candidates(&servers, &name.parse().unwrap()).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(texts("db"), ["db.corp.example", "db.example", "db"]);
        assert_eq!(texts("db.internal"), ["db.internal"]);
    }

    #[test]
    fn names_of_the_machine_itself() {
        for (text, expected) in [
            ("localhost", true),
            ("LOCALHOST.", true),
            ("a.b.localhost", true),
            ("notlocalhost", false),
            ("localhost.example", false),
        ] {
            assert_eq!(is_loopback(&text.parse().unwrap()), expected, "{text}");
        }
    }
}
