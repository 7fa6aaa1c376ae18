//! The hidden command `net-client [ORDER…]`: does what it is told on the network, and says how many nanoseconds that took.
//!
//! ```text
//! connect ADDRESS       connects, sends a byte, waits for it to come back, closes
//! name HOST PORT        the same with a host by its name
//! take ADDRESS BYTES    receives so many from the server for streams
//! give ADDRESS BYTES    sends it so many
//! many ADDRESS COUNT    so many connections at once, a byte each way on each
//! ```
//! Without an order on the command line, orders come on standard input, one a line.

use std::io::{self, BufRead, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType};

use super::servers::{GIVE, TAKE, TAKEN, raise_descriptor_limit, receive, send};
use crate::failure::Failure;

/// Said when there are no orders yet.
pub const READY: &str = "ready";
/// How the line begins that says what went wrong.
pub const FAILED: &str = "failed: ";
/// No beginning of anything that rules look into.
const BYTE: u8 = 0;
const PATIENCE: Duration = Duration::from_secs(30);

pub fn run(arguments: &[String]) -> Result<(), Failure> {
    raise_descriptor_limit();
    if !arguments.is_empty() {
        let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let took = obey(&words).map_err(|error| Failure::new(format!("{}: {error}", arguments.join(" "))))?;
        println!("{}", took.as_nanos());
        return Ok(());
    }
    println!("{READY}");
    for line in io::stdin().lock().lines() {
        let line = line.map_err(|error| Failure::new(format!("no more orders: {error}")))?;
        match obey(&line.split(' ').collect::<Vec<_>>()) {
            Ok(took) => println!("{}", took.as_nanos()),
            Err(error) => println!("{FAILED}{error}"),
        }
    }
    Ok(())
}

fn obey(order: &[&str]) -> io::Result<Duration> {
    let address = |text: &str| text.parse::<SocketAddr>().map_err(io::Error::other);
    let number = |text: &str| text.parse::<u64>().map_err(io::Error::other);
    match order {
        ["connect", at] => timed(address(at)?, |at| exchange(connect(at)?)),
        ["name", host, port] => {
            let port = port.parse().map_err(io::Error::other)?;
            timed((*host, port), |named| {
                let found = named.to_socket_addrs()?.next().ok_or(io::ErrorKind::NotFound)?;
                exchange(connect(found)?)
            })
        }
        ["take", at, bytes] => timed((address(at)?, number(bytes)?), |(at, bytes)| {
            let mut connection = wish(at, GIVE, bytes)?;
            receive(&mut connection, bytes)
        }),
        ["give", at, bytes] => timed((address(at)?, number(bytes)?), |(at, bytes)| {
            let mut connection = wish(at, TAKE, bytes)?;
            send(&mut connection, bytes)?;
            expect(&mut connection, TAKEN)
        }),
        ["many", at, count] => timed((address(at)?, number(count)?), |(at, count)| many(at, count)),
        _ => Err(io::Error::other("there is no such order")),
    }
}

fn timed<T>(what: T, work: impl FnOnce(T) -> io::Result<()>) -> io::Result<Duration> {
    let started = Instant::now();
    work(what)?;
    Ok(started.elapsed())
}

fn connect(at: SocketAddr) -> io::Result<TcpStream> {
    let connection = TcpStream::connect(at)?;
    connection.set_read_timeout(Some(PATIENCE))?;
    Ok(connection)
}

fn exchange(mut connection: TcpStream) -> io::Result<()> {
    connection.write_all(&[BYTE])?;
    expect(&mut connection, BYTE)
}

fn expect(connection: &mut TcpStream, byte: u8) -> io::Result<()> {
    let mut answer = [!byte];
    connection.read_exact(&mut answer)?;
    if answer == [byte] { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
}

fn wish(at: SocketAddr, what: u8, bytes: u64) -> io::Result<TcpStream> {
    let mut connection = connect(at)?;
    connection.write_all(&[&[what][..], &bytes.to_le_bytes()].concat())?;
    Ok(connection)
}

/// All are under way before the first is waited for, and all are open until the last has answered.
fn many(at: SocketAddr, count: u64) -> io::Result<()> {
    let begun: Vec<OwnedFd> = (0..count).map(|_| begin(at)).collect::<io::Result<_>>()?;
    let mut connections = Vec::with_capacity(begun.len());
    for socket in begun {
        wait(&socket, PollFlags::OUT)?;
        let mut connection = TcpStream::from(socket);
        if let Some(error) = connection.take_error()? {
            return Err(error);
        }
        connection.write_all(&[BYTE])?;
        connections.push(connection);
    }
    for connection in &mut connections {
        wait(connection, PollFlags::IN)?;
        expect(connection, BYTE)?;
    }
    Ok(())
}

fn begin(at: SocketAddr) -> io::Result<OwnedFd> {
    let family = if at.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = rustix::net::socket_with(family, SocketType::STREAM, SocketFlags::NONBLOCK | SocketFlags::CLOEXEC, None)?;
    match rustix::net::connect(&socket, &at) {
        Ok(()) | Err(rustix::io::Errno::INPROGRESS) => Ok(socket),
        Err(errno) => Err(errno.into()),
    }
}

fn wait(socket: &impl AsFd, what: PollFlags) -> io::Result<()> {
    let patience = Timespec { tv_sec: PATIENCE.as_secs().cast_signed(), tv_nsec: 0 };
    match poll(&mut [PollFd::new(socket, what)], Some(&patience))? {
        0 => Err(io::ErrorKind::TimedOut.into()),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::servers;
    use super::*;

    #[test]
    fn every_order_is_obeyed_and_what_nobody_answers_is_a_failure() {
        let ports = servers::start().unwrap();
        let (echo, stream) = (format!("127.0.0.1:{}", ports.echo), format!("127.0.0.1:{}", ports.stream));
        obey(&["connect", &echo]).unwrap();
        obey(&["name", "localhost", &ports.echo.to_string()]).unwrap();
        obey(&["take", &stream, "1000000"]).unwrap();
        obey(&["give", &stream, "1000000"]).unwrap();
        obey(&["many", &echo, "200"]).unwrap();
        assert!(obey(&["connect", "127.0.0.1:1"]).is_err());
        assert!(obey(&["many", "127.0.0.1:1", "3"]).is_err());
        assert!(obey(&["dance"]).is_err());
    }
}
