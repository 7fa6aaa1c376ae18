//! Connections from outside, to addresses that were judged.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;

use rustix::net::sockopt;
use tokio::net::TcpStream;
use tokio::time::timeout;
use whatif_netpolicy::{Host, HostName, Request};

use crate::relay::reset;
use crate::supervisor::Supervisor;
use crate::upstream::Proxy;
use crate::verdict::{Denial, check_not_loopback, judge};

/// For one address, and for all that a name leads to.
const PATIENCE: Duration = Duration::from_secs(5);
const PATIENCE_ALTOGETHER: Duration = Duration::from_secs(20);
const MOST_ADDRESSES: usize = 8;
/// A connection whose other end vanished without a word is noticed after some minutes.
const SILENCE: Duration = Duration::from_secs(120);

#[derive(Debug)]
pub(crate) struct Dialled {
    pub(crate) stream: TcpStream,
    /// Unknown where a proxy has dialled.
    pub(crate) address: Option<IpAddr>,
}

#[derive(Debug)]
pub(crate) enum DialError {
    Denied(Denial),
    Failed(String),
}

impl From<Denial> for DialError {
    fn from(denial: Denial) -> Self {
        Self::Denied(denial)
    }
}

/// The host itself, or the user's proxy for it. The target was allowed already; where it leads is judged here. Of a name's
/// addresses it is `only` this one, if the client has come by it.
pub(crate) async fn dial(supervisor: &Supervisor, host: &Host, port: u16, only: Option<IpAddr>) -> Result<Dialled, DialError> {
    let outcome = timeout(PATIENCE_ALTOGETHER, async {
        match host {
            Host::Address(address) => to_address(supervisor, *address, port).await,
            Host::Name(name) => match supervisor.upstream.for_connection(host, port) {
                Some(proxy) => through(supervisor, proxy, host, port).await,
                None => to_name(supervisor, name, port, only).await,
            },
        }
    });
    outcome.await.unwrap_or_else(|_| Err(DialError::Failed("no answer".to_owned())))
}

async fn to_address(supervisor: &Supervisor, address: IpAddr, port: u16) -> Result<Dialled, DialError> {
    check(supervisor, address)?;
    let host = Host::Address(address);
    match supervisor.upstream.for_connection(&host, port).filter(|_| whatif_netpolicy::address::is_public(address)) {
        Some(proxy) => through(supervisor, proxy, &host, port).await,
        None => first_of(supervisor, &[address], port).await,
    }
}

async fn to_name(supervisor: &Supervisor, name: &HostName, port: u16, only: Option<IpAddr>) -> Result<Dialled, DialError> {
    let found = match only {
        Some(address) => vec![address],
        None => supervisor.resolver.resolve(name).await.map_err(|error| DialError::Failed(error.to_string()))?,
    };
    let policy = supervisor.rules.policy();
    let mut allowed = Vec::new();
    let mut denial = None;
    for address in found {
        let request = Request::Resolved { name, address, port };
        match check(supervisor, address).and_then(|()| judge(&policy, &request).map(drop)) {
            Ok(()) => allowed.push(address),
            Err(because) => _ = denial.get_or_insert(because),
        }
    }
    if allowed.is_empty() {
        return Err(denial.map_or_else(|| DialError::Failed(format!("{name} has no address")), DialError::Denied));
    }
    // A network without IPv6 is more common than one without IPv4.
    allowed.sort_by_key(IpAddr::is_ipv6);
    allowed.truncate(MOST_ADDRESSES);
    first_of(supervisor, &allowed, port).await
}

/// What is never dialled, whatever rules say.
fn check(supervisor: &Supervisor, address: IpAddr) -> Result<(), Denial> {
    if supervisor.is_stand_in(address) {
        return Err(Denial::plain(format!("{address} stands for a name inside and is nowhere outside")));
    }
    check_not_loopback(address)
}

/// The proxy's own address is the user's choice and is not judged.
async fn through(supervisor: &Supervisor, proxy: &Proxy, host: &Host, port: u16) -> Result<Dialled, DialError> {
    let failed = |error: &dyn std::fmt::Display| DialError::Failed(format!("through the proxy {}: {error}", proxy.host));
    let addresses = match &proxy.host {
        Host::Address(address) => vec![*address],
        Host::Name(name) => supervisor.resolver.resolve(name).await.map_err(|error| failed(&error))?,
    };
    let dialled = first_of(supervisor, &addresses, proxy.port).await?;
    proxy.tunnel(&dialled.stream, host, port).await.map_err(|error| failed(&error))?;
    Ok(Dialled { address: None, ..dialled })
}

async fn first_of(supervisor: &Supervisor, addresses: &[IpAddr], port: u16) -> Result<Dialled, DialError> {
    let mut failure = String::new();
    for address in addresses {
        match timeout(PATIENCE, TcpStream::connect(SocketAddr::new(*address, port))).await {
            Ok(Ok(stream)) => {
                prepare(&stream, supervisor.connections.buffer());
                return Ok(Dialled { stream, address: Some(*address) });
            }
            Ok(Err(error)) => failure = format!("{address}: {}", in_words(&error)),
            Err(_) => failure = format!("{address}: no answer"),
        }
    }
    Err(DialError::Failed(failure))
}

/// A port of this machine's own loopback.
pub(crate) async fn loopback(supervisor: &Supervisor, port: u16) -> Result<Dialled, DialError> {
    first_of(supervisor, &[std::net::Ipv4Addr::LOCALHOST.into(), std::net::Ipv6Addr::LOCALHOST.into()], port).await
}

/// Bytes go on at once and do not pile up, the silent death of the other end is noticed, and an end that nobody has planned is a reset.
pub(crate) fn prepare(stream: &TcpStream, buffer: usize) {
    reset(stream);
    let _ = stream.set_nodelay(true);
    let _ = sockopt::set_socket_recv_buffer_size(stream.as_fd(), buffer);
    let _ = sockopt::set_socket_send_buffer_size(stream.as_fd(), buffer);
    let _ = sockopt::set_socket_keepalive(stream.as_fd(), true);
    let _ = sockopt::set_tcp_keepidle(stream.as_fd(), SILENCE);
}

fn in_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable => "there is no way there".to_owned(),
        io::ErrorKind::TimedOut => "no answer".to_owned(),
        _ => error.to_string(),
    }
}
