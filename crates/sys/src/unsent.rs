//! What a socket still has to send.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

use crate::check;

/// Bytes that the other side has not acknowledged yet.
pub fn unsent(socket: BorrowedFd<'_>) -> io::Result<usize> {
    let mut count: libc::c_int = 0;
    // SAFETY: TIOCOUTQ, which sockets know as SIOCOUTQ, writes one int.
    check(unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut count) }.into())?;
    Ok(usize::try_from(count).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsFd;

    #[test]
    fn what_nobody_takes_is_unsent() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut there, _) = listener.accept().unwrap();
        here.set_nonblocking(true).unwrap();
        let mut written = 0;
        while let Ok(count) = here.write(&[0; 64 << 10]) {
            written += count;
        }
        assert!(unsent(here.as_fd()).unwrap() > 0);
        let mut taken = vec![0; written];
        there.read_exact(&mut taken).unwrap();
        while unsent(here.as_fd()).unwrap() > 0 {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
}
