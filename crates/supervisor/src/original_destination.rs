//! Where a redirected connection was meant to go.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;

use rustix::net::sockopt::{ip_original_dst, ipv6_original_dst};
use tokio::net::TcpStream;

/// What the kernel remembers of the destination before it was rewritten. A connection that was not rewritten is meant for where
/// it arrived.
pub(crate) fn of(stream: &TcpStream) -> io::Result<SocketAddr> {
    let arrived = canonical(stream.local_addr()?);
    let asked = match arrived {
        SocketAddr::V4(_) => ip_original_dst(stream.as_fd()).map(SocketAddr::V4),
        SocketAddr::V6(_) => ipv6_original_dst(stream.as_fd()).map(SocketAddr::V6),
    };
    Ok(asked.map_or(arrived, canonical))
}

/// An IPv4 address in IPv6 form is an IPv4 address.
pub(crate) fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(v4) => SocketAddr::new(v4.into(), address.port()),
        IpAddr::V6(v6) => SocketAddr::new(v6.into(), address.port()),
    }
}
