//! Servers out there: one that sends every byte back, and one that gives and takes as much as it is told.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use rustix::buffer::spare_capacity;
use rustix::event::epoll;

use crate::failure::Failure;

/// What a client wants of the second one; the number of bytes follows in eight bytes.
pub const GIVE: u8 = 1;
pub const TAKE: u8 = 2;
/// The other sends this when it has taken all.
pub const TAKEN: u8 = 3;
pub const CHUNK: usize = 256 << 10;

/// More than will ever wait: a connection for which there is no room is tried again a second later.
const BACKLOG: i32 = 4096;
const LISTENER: u64 = 0;

#[derive(Clone, Copy, Debug)]
pub struct Ports {
    pub echo: u16,
    pub stream: u16,
}

/// They serve until this process ends.
pub fn start() -> Result<Ports, Failure> {
    let failed = |error: io::Error| Failure::new(format!("a server failed to start: {error}"));
    raise_descriptor_limit();
    let (echo, stream) = (listener().map_err(failed)?, listener().map_err(failed)?);
    let port = |listener: &TcpListener| listener.local_addr().map(|address| address.port()).map_err(failed);
    let ports = Ports { echo: port(&echo)?, stream: port(&stream)? };
    thread::spawn(move || {
        if let Err(error) = echo_all(&echo) {
            eprintln!("bench: a server failed: {error}");
        }
    });
    thread::spawn(move || {
        for connection in stream.incoming().flatten() {
            thread::spawn(move || serve_stream(connection));
        }
    });
    Ok(ports)
}

pub fn raise_descriptor_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
}

fn listener() -> io::Result<TcpListener> {
    let listener = TcpListener::bind("0.0.0.0:0")?;
    rustix::net::listen(&listener, BACKLOG)?;
    Ok(listener)
}

/// In one thread, so that a thousand connections do not measure the making of threads.
fn echo_all(listener: &TcpListener) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&epoll, listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
    let mut connections: HashMap<u64, TcpStream> = HashMap::new();
    let (mut next, mut events) = (LISTENER, Vec::with_capacity(256));
    loop {
        match epoll::wait(&epoll, spare_capacity(&mut events), None) {
            Err(rustix::io::Errno::INTR) => continue,
            other => other?,
        };
        for event in events.drain(..) {
            let id = event.data.u64();
            if id != LISTENER {
                if connections.get_mut(&id).is_some_and(|connection| echo(connection).is_none()) {
                    connections.remove(&id);
                }
                continue;
            }
            while let Ok((connection, _)) = listener.accept() {
                connection.set_nonblocking(true)?;
                next += 1;
                epoll::add(&epoll, &connection, epoll::EventData::new_u64(next), epoll::EventFlags::IN)?;
                connections.insert(next, connection);
            }
        }
    }
}

/// Nothing when the connection is over.
fn echo(connection: &mut TcpStream) -> Option<()> {
    let mut byte = [0];
    match connection.read(&mut byte) {
        Ok(1) => connection.write_all(&byte).ok(),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Some(()),
        _ => None,
    }
}

fn serve_stream(mut connection: TcpStream) -> io::Result<()> {
    let mut wish = [0; 9];
    connection.read_exact(&mut wish)?;
    let (wanted, length) = wish.split_at(1);
    let length = u64::from_le_bytes(length.try_into().map_err(io::Error::other)?);
    match wanted {
        [GIVE] => send(&mut connection, length),
        _ => {
            receive(&mut connection, length)?;
            connection.write_all(&[TAKEN])
        }
    }
}

pub fn send(connection: &mut TcpStream, length: u64) -> io::Result<()> {
    let chunk = vec![0; CHUNK];
    let mut left = length;
    while left > 0 {
        let part = usize::try_from(left).map_or(CHUNK, |left| left.min(CHUNK));
        connection.write_all(&chunk[..part])?;
        left -= part as u64;
    }
    Ok(())
}

/// So many, and not one less.
pub fn receive(connection: &mut TcpStream, length: u64) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK];
    let mut left = length;
    while left > 0 {
        match connection.read(&mut chunk)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => left = left.checked_sub(count as u64).ok_or(io::ErrorKind::InvalidData)?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_and_streams_have_the_length_that_was_wished() {
        let ports = start().unwrap();
        let connect = |port| TcpStream::connect(("127.0.0.1", port)).unwrap();
        let mut echo = connect(ports.echo);
        echo.write_all(&[7]).unwrap();
        let mut byte = [0];
        echo.read_exact(&mut byte).unwrap();
        assert_eq!(byte, [7]);

        let length = 3 * CHUNK as u64 + 17;
        let wish = |wanted: u8, length: u64| [&[wanted][..], &length.to_le_bytes()].concat();
        let mut giving = connect(ports.stream);
        giving.write_all(&wish(GIVE, length)).unwrap();
        receive(&mut giving, length).unwrap();
        assert_eq!(giving.read(&mut byte).unwrap(), 0, "and not one more");

        let mut short = connect(ports.stream);
        short.write_all(&wish(GIVE, length - 1)).unwrap();
        assert_eq!(receive(&mut short, length).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);

        let mut taking = connect(ports.stream);
        taking.write_all(&wish(TAKE, length)).unwrap();
        send(&mut taking, length).unwrap();
        taking.read_exact(&mut byte).unwrap();
        assert_eq!(byte, [TAKEN]);
    }
}
