//! One question to one name server.
//!
//! Each question has a socket of its own, so a port and a number that nobody can foresee; the kernel passes on only what comes
//! from the server, and of that only an answer to the very question is believed. The rest is passed over: it may be forged, and
//! the true answer may still come.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use whatif_netpolicy::HostName;
use whatif_netpolicy::dns::{Family, Found, Lookup};
use whatif_sys::random;

use super::resolv_conf::FirstTry;

/// More than the 1232 bytes that are asked for, since some servers send what they like.
const LARGEST_DATAGRAM: usize = 4096;
/// Somebody who sends that many wrong ones is guessing, and could keep us busy with it.
const MOST_WRONG: usize = 64;

/// Ends by itself only if the server says something or cannot be reached; whoever calls has to set a time.
pub(super) async fn ask(server: SocketAddr, first: FirstTry, name: &HostName, family: Family) -> io::Result<Found> {
    if first == FirstTry::Tcp {
        return ask_tcp(server, name, family).await;
    }
    match ask_udp(server, &lookup(name, family)?, Lookup::message).await? {
        Found::NotUnderstood => match ask_udp(server, &lookup(name, family)?, Lookup::message_without_extensions).await? {
            Found::Truncated => ask_tcp(server, name, family).await,
            found => Ok(found),
        },
        Found::Truncated => ask_tcp(server, name, family).await,
        found => Ok(found),
    }
}

fn lookup(name: &HostName, family: Family) -> io::Result<Lookup> {
    let mut id = [0; 2];
    random::fill(&mut id)?;
    Ok(Lookup::new(u16::from_ne_bytes(id), name, family))
}

async fn ask_udp(server: SocketAddr, lookup: &Lookup, message: fn(&Lookup) -> Vec<u8>) -> io::Result<Found> {
    let any: SocketAddr = match server {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    let socket = UdpSocket::bind(any).await?;
    socket.connect(server).await?;
    socket.send(&message(lookup)).await?;
    let mut buffer = [0; LARGEST_DATAGRAM];
    for _ in 0..MOST_WRONG {
        let length = socket.recv(&mut buffer).await?;
        if let Ok(found) = lookup.read(&buffer[..length]) {
            return Ok(found);
        }
    }
    Err(io::ErrorKind::InvalidData.into())
}

/// Here a wrong answer is the server's own.
async fn ask_tcp(server: SocketAddr, name: &HostName, family: Family) -> io::Result<Found> {
    let lookup = lookup(name, family)?;
    let mut stream = TcpStream::connect(server).await?;
    let message = lookup.message();
    let length = u16::try_from(message.len()).unwrap_or(u16::MAX);
    stream.write_all(&[&length.to_be_bytes()[..], &message].concat()).await?;
    let mut answer = vec![0; usize::from(stream.read_u16().await?)];
    stream.read_exact(&mut answer).await?;
    lookup.read(&answer).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}
