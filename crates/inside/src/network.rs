//! Inside the keeper, before it is confined: the network that a sandbox with rules has.
//!
//! Its namespace has no device but loopback, so nothing gets out by itself. Every address is made a local one, whatever is sent
//! to any of them is redirected to listeners of ours, and what cannot be is dropped. Whoever is given those listeners outside
//! decides what becomes of it.

mod netlink;
mod nft;
mod routes;

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, getsockname, ipproto, listen, socket_with, sockopt::set_ipv6_v6only,
};
use whatif_types::network::Role;

/// As many as the kernel lets wait; a supervisor that is just being started finds them all.
const BACKLOG: i32 = 4096;

/// The same in every sandbox where it is free, because it shows in variables, and some programs start anew when these change.
const USUAL_PORT: u16 = 43128;

/// What the sandbox sends, and the port at which it all arrives.
#[derive(Debug, Default)]
pub struct Listeners {
    pub port: Option<u16>,
    pub all: Vec<(Role, OwnedFd)>,
}

/// For a network with rules: the listeners, and everything that leads to them.
pub fn redirect() -> Result<Listeners, (&'static str, io::Error)> {
    let at = |step: &'static str| move |error: io::Error| (step, error);
    let tcp = on_loopback(SocketType::STREAM, USUAL_PORT).or_else(|_| on_loopback(SocketType::STREAM, 0));
    let tcp = tcp.map_err(at("listen for connections"))?;
    let port = tcp.first().map_or(0, |(port, _)| *port);
    let dns = on_loopback(SocketType::DGRAM, port).map_err(at("listen for questions"))?;
    routes::make_everything_local(tcp.len() > 1).map_err(at("route everything to loopback"))?;
    nft::redirect_to(port).map_err(at("redirect connections (the kernel's nf_tables does that)"))?;
    let tcp = tcp.into_iter().map(|(_, listener)| (Role::Tcp, listener));
    Ok(Listeners { port: Some(port), all: tcp.chain(dns.into_iter().map(|(_, socket)| (Role::Dns, socket))).collect() })
}

/// Adds listeners for services of the host, at the ports they have there.
pub fn listen_for_host(listeners: &mut Listeners, reach: &[u16]) -> io::Result<()> {
    for port in reach {
        let both = on_loopback(SocketType::STREAM, *port)?;
        listeners.all.extend(both.into_iter().map(|(_, listener)| (Role::Reach { port: *port }, listener)));
    }
    Ok(())
}

/// A socket for IPv4 and, where the kernel has it, one for IPv6 at the same port. With port 0, at any that is free.
fn on_loopback(kind: SocketType, port: u16) -> io::Result<Vec<(u16, OwnedFd)>> {
    let first = bound(kind, SocketAddr::from((Ipv4Addr::LOCALHOST, port)))?;
    match bound(kind, SocketAddr::from((Ipv6Addr::LOCALHOST, first.0))) {
        Ok(second) => Ok(vec![first, second]),
        Err(error) if is_without_ipv6(&error) => Ok(vec![first]),
        Err(error) => Err(error),
    }
}

fn is_without_ipv6(error: &io::Error) -> bool {
    let without = [Errno::AFNOSUPPORT, Errno::ADDRNOTAVAIL, Errno::PROTONOSUPPORT];
    Errno::from_io_error(error).is_some_and(|errno| without.contains(&errno))
}

fn bound(kind: SocketType, address: SocketAddr) -> io::Result<(u16, OwnedFd)> {
    let (family, protocol) = match address {
        SocketAddr::V4(_) => (AddressFamily::INET, if kind == SocketType::STREAM { ipproto::TCP } else { ipproto::UDP }),
        SocketAddr::V6(_) => (AddressFamily::INET6, if kind == SocketType::STREAM { ipproto::TCP } else { ipproto::UDP }),
    };
    let socket = socket_with(family, kind, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, Some(protocol))?;
    if address.is_ipv6() {
        set_ipv6_v6only(&socket, true)?;
    }
    bind(&socket, &address)?;
    if kind == SocketType::STREAM {
        listen(&socket, BACKLOG)?;
    }
    let port = SocketAddr::try_from(getsockname(&socket)?)?.port();
    Ok((port, socket))
}
