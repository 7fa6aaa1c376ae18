//! Bytes from one socket to another, unread. An end is passed on as an end, a reset as a reset.

use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::net::{RecvFlags, Shutdown};
use rustix::pipe::{SpliceFlags, splice};
use tokio::io::Interest;
use tokio::net::TcpStream;

use crate::pipes::{Borrowed, CAPACITY, Pipes};

/// Between one connection and the next one's turn.
const TURN: u64 = 1 << 20;
const COPIED_AT_ONCE: usize = 16 << 10;
/// So often and so long a head waits for a body.
const MOMENTS: usize = 3;
const A_MOMENT: Duration = Duration::from_millis(1);
const LARGEST_HEAD: usize = 2 << 10;
/// For the rest of an answer to be taken.
const TAKING_PATIENCE: Duration = Duration::from_secs(2);

/// Bytes from the sandbox and to it.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    pub(crate) sent: AtomicU64,
    pub(crate) received: AtomicU64,
}

/// Both ways to the end. An error on either side is one for both.
pub(crate) async fn both_ways(client: &TcpStream, server: &TcpStream, traffic: &Traffic, pipes: &Pipes) -> io::Result<()> {
    let answers = async {
        gather(server).await?;
        one_way(server, client, &traffic.received, pipes).await
    };
    tokio::try_join!(one_way(client, server, &traffic.sent, pipes), answers)?;
    Ok(())
}

/// Servers write the head of an answer and its body one after the other, and there are clients that look once and expect both.
/// Without us in between they usually find both, so the first head of a connection waits a moment for what belongs to it.
/// An error is reported only once, so it is the caller's.
pub(crate) async fn gather(from: &TcpStream) -> io::Result<()> {
    from.readable().await?;
    let Some(count) = head_alone(from)? else { return Ok(()) };
    let has_more = || rustix::io::ioctl_fionread(from).is_ok_and(|waiting| waiting > count as u64);
    for _ in 0..MOMENTS {
        if has_more() {
            break;
        }
        tokio::time::sleep(A_MOMENT).await;
    }
    Ok(())
}

/// How long it is, if a head is all that has come. Not part of a future, which would be as large as the buffer.
fn head_alone(from: &TcpStream) -> io::Result<Option<usize>> {
    let mut first = [0; LARGEST_HEAD];
    match rustix::net::recv(from, &mut first, RecvFlags::PEEK | RecvFlags::DONTWAIT) {
        Ok((count, _)) => Ok(Some(count).filter(|_| is_head_alone(&first[..count]))),
        Err(rustix::io::Errno::AGAIN) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

/// Of an answer that has a body.
fn is_head_alone(bytes: &[u8]) -> bool {
    let has_body = |status: &[u8]| !matches!(status, b"204" | b"304") && !status.starts_with(b"1");
    bytes.starts_with(b"HTTP/1.") && bytes.ends_with(b"\r\n\r\n") && bytes.get(9..12).is_some_and(has_body)
}

/// Until `from` ends, and then that end too.
pub(crate) async fn one_way(from: &TcpStream, to: &TcpStream, moved: &AtomicU64, pipes: &Pipes) -> io::Result<()> {
    until_end(from, to, moved, pipes).await?;
    pass_end_on(to)
}

/// Until `from` ends. The other side is not told.
pub(crate) async fn until_end(from: &TcpStream, to: &TcpStream, moved: &AtomicU64, pipes: &Pipes) -> io::Result<()> {
    let mut turn = 0;
    loop {
        from.readable().await?;
        let outcome = match pipes.borrow() {
            Some(pipe) => spliced(from, to, pipe).await,
            None => copied(from, to).await,
        };
        match outcome {
            Ok(0) => return Ok(()),
            Ok(count) => {
                moved.fetch_add(count, Ordering::Relaxed);
                turn += count;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        if turn >= TURN {
            turn = 0;
            tokio::task::yield_now().await;
        }
    }
}

/// Says to the other side that nothing more will come.
pub(crate) fn pass_end_on(to: &TcpStream) -> io::Result<()> {
    match rustix::net::shutdown(to.as_fd(), Shutdown::Write) {
        // It has gone already.
        Ok(()) | Err(rustix::io::Errno::NOTCONN) => Ok(()),
        Err(errno) => Err(errno.into()),
    }
}

/// From now on this stream ends with a reset, whatever it ends by: should this process be killed, half of an answer must not
/// look like all of it.
pub(crate) fn reset(stream: &TcpStream) {
    let _ = stream.set_zero_linger();
}

/// Waits until the other side has all of it, or does not take it: a reset would take it back.
pub(crate) async fn sent(stream: &TcpStream) {
    let until = tokio::time::Instant::now() + TAKING_PATIENCE;
    while whatif_sys::unsent::unsent(stream.as_fd()).is_ok_and(|bytes| bytes > 0) && tokio::time::Instant::now() < until {
        tokio::time::sleep(A_MOMENT).await;
    }
}

/// All was said: it may end like any other.
pub(crate) fn end_well(stream: &TcpStream) {
    let _ = rustix::net::sockopt::set_socket_linger(stream.as_fd(), None);
}

/// All of it, and nothing is left behind if it fails half-way: the connection is of no more use then.
pub(crate) async fn send_all(to: &TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        match to.try_write(bytes) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => to.writable().await?,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// What was read from the client before the relay began.
pub(crate) async fn send_counted(to: &TcpStream, bytes: Vec<u8>, traffic: &Traffic) -> io::Result<()> {
    send_all(to, &bytes).await?;
    traffic.sent.fetch_add(bytes.len() as u64, Ordering::Relaxed);
    Ok(())
}

async fn spliced(from: &TcpStream, to: &TcpStream, pipe: Borrowed<'_>) -> io::Result<u64> {
    let flags = SpliceFlags::MOVE | SpliceFlags::NONBLOCK;
    let Some((out, into)) = pipe.ends() else { return Err(io::ErrorKind::BrokenPipe.into()) };
    // The pipe is empty, so what would block is the socket.
    let taken = match from.try_io(Interest::READABLE, || Ok(splice(from, None, into, None, CAPACITY, flags)?)) {
        Ok(0) => {
            pipe.give_back();
            return Ok(0);
        }
        Err(error) => {
            pipe.give_back();
            return Err(error);
        }
        Ok(taken) => taken,
    };
    let mut left = taken;
    while left > 0 {
        match to.try_io(Interest::WRITABLE, || Ok(splice(out, None, to, None, left, flags)?)) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(given) => left -= given,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => to.writable().await?,
            Err(error) => return Err(error),
        }
    }
    pipe.give_back();
    Ok(taken as u64)
}

async fn copied(from: &TcpStream, to: &TcpStream) -> io::Result<u64> {
    let mut buffer = vec![0; COPIED_AT_ONCE];
    let count = from.try_read(&mut buffer)?;
    send_all(to, &buffer[..count]).await?;
    Ok(count as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_head_that_a_body_follows_waits() {
        assert!(is_head_alone(b"HTTP/1.0 200 OK\r\nContent-Length: 6\r\n\r\n"));
        assert!(is_head_alone(b"HTTP/1.1 404 Not Found\r\n\r\n"));
        for other in [
            &b"HTTP/1.1 304 Not Modified\r\n\r\n"[..],
            b"HTTP/1.1 101 Switching\r\n\r\n",
            b"HTTP/1.1 200 OK\r\n\r\nbody",
            b"\x16\x03",
            b"",
        ] {
            assert!(!is_head_alone(other));
        }
    }
}
