//! What the kernel holds in sockets: bytes that were sent and that nobody has read.

use std::io;
use std::os::fd::OwnedFd;

use rustix::io::Errno;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with};

const HEADER: usize = 16;
const DUMP: u16 = 0x301;
const BY_FAMILY: u16 = 20;
const ERROR: u16 = 2;
const DONE: u16 = 3;

/// What a dump asks for, and where the memory of a socket stands in its answer.
struct Kind {
    family: u8,
    protocol: u8,
    /// The structure that an answer begins with; attributes follow it.
    fixed: usize,
    attribute: u16,
}

const TCP: u8 = 6;
const UDP: u8 = 17;
const INET: u8 = 2;
const INET6: u8 = 10;
const UNIX: u8 = 1;

const KINDS: [Kind; 5] = [
    Kind { family: INET, protocol: TCP, fixed: 72, attribute: 7 },
    Kind { family: INET6, protocol: TCP, fixed: 72, attribute: 7 },
    Kind { family: INET, protocol: UDP, fixed: 72, attribute: 7 },
    Kind { family: INET6, protocol: UDP, fixed: 72, attribute: 7 },
    Kind { family: UNIX, protocol: 0, fixed: 16, attribute: 5 },
];

/// Asks the kernel about the sockets of a network namespace.
#[derive(Debug)]
pub struct Census(OwnedFd);

impl Census {
    /// For the namespace of this process. The system call filter of a sandbox forbids it.
    pub fn open() -> io::Result<Self> {
        let kind = (AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC);
        Ok(Self(socket_with(kind.0, kind.1, kind.2, Some(netlink::SOCK_DIAG))?))
    }

    /// The bytes in all sockets.
    pub(super) fn measure(&self) -> io::Result<u64> {
        let mut total = 0;
        for kind in &KINDS {
            match kind.measure(&self.0) {
                Ok(bytes) => total += bytes,
                // A kernel without this family, or that tells nothing about it.
                Err(Errno::NOENT | Errno::PROTONOSUPPORT | Errno::AFNOSUPPORT) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(total)
    }
}

impl Kind {
    fn measure(&self, socket: &OwnedFd) -> rustix::io::Result<u64> {
        sendto(socket, &self.request(), SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        let mut buffer = vec![0_u8; 32 << 10];
        let mut total = 0;
        loop {
            let received = recv(socket, buffer.as_mut_slice(), RecvFlags::empty())?.0;
            let mut rest = buffer.get(..received).unwrap_or_default();
            while let Some(header) = rest.first_chunk::<HEADER>() {
                let length = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) as usize;
                let message = rest.get(HEADER..length).ok_or(Errno::BADMSG)?;
                match u16::from_ne_bytes([header[4], header[5]]) {
                    DONE => return Ok(total),
                    ERROR => return Err(error_in(message)),
                    _ => total += message.get(self.fixed..).map_or(0, |attributes| self.in_socket(attributes)),
                }
                rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
            }
        }
    }

    fn request(&self) -> Vec<u8> {
        let mut body = vec![self.family, self.protocol];
        if self.family == UNIX {
            // All states; no particular one; its memory.
            body.extend([0; 2]);
            body.extend(u32::MAX.to_ne_bytes());
            body.extend([0; 4]);
            body.extend(0x20_u32.to_ne_bytes());
            body.resize(24, 0);
        } else {
            body.extend([1 << (self.attribute - 1), 0]);
            body.extend(u32::MAX.to_ne_bytes());
            body.resize(56, 0);
        }
        let mut request = ((HEADER + body.len()) as u32).to_ne_bytes().to_vec();
        request.extend(BY_FAMILY.to_ne_bytes());
        request.extend(DUMP.to_ne_bytes());
        request.resize(HEADER, 0);
        request.extend(body);
        request
    }

    fn in_socket(&self, mut attributes: &[u8]) -> u64 {
        while let Some(header) = attributes.first_chunk::<4>() {
            let length = usize::from(u16::from_ne_bytes([header[0], header[1]]));
            let Some(value) = attributes.get(4..length) else { return 0 };
            if u16::from_ne_bytes([header[2], header[3]]) == self.attribute {
                return in_buffers(value);
            }
            attributes = attributes.get(length.next_multiple_of(4)..).unwrap_or_default();
        }
        0
    }
}

/// Received, sent, and set aside for either. What waits to be sent is told in two ways, by one protocol or the other.
fn in_buffers(numbers: &[u8]) -> u64 {
    let numbers: Vec<u64> = numbers.chunks_exact(4).map(|n| u64::from(u32::from_ne_bytes([n[0], n[1], n[2], n[3]]))).collect();
    let of = |place: usize| numbers.get(place).copied().unwrap_or(0);
    let (received, sending, set_aside, queued) = (of(0), of(2), of(4), of(5));
    received + sending.max(queued) + set_aside
}

fn error_in(message: &[u8]) -> Errno {
    message.first_chunk::<4>().map_or(Errno::BADMSG, |code| Errno::from_raw_os_error(-i32::from_ne_bytes(*code)))
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::unix::net::UnixStream;

    use super::*;

    /// Others have sockets in the same namespace, and close them meanwhile.
    #[test]
    fn bytes_that_nobody_reads_are_counted() {
        assert!((0..20).any(|_| more_by(in_tcp) >= 100_000), "TCP");
        assert!((0..20).any(|_| more_by(in_udp) >= 50_000), "UDP");
        assert!((0..20).any(|_| more_by(in_unix) >= 60_000), "unix");
    }

    fn more_by<T>(hold: fn() -> T) -> u64 {
        let census = Census::open().unwrap();
        let before = census.measure().unwrap();
        let _held = hold();
        census.measure().unwrap().saturating_sub(before)
    }

    fn in_tcp() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (receiver, _) = listener.accept().unwrap();
        sender.write_all(&[1; 100_000]).unwrap();
        (sender, receiver)
    }

    fn in_udp() -> UdpSocket {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        sender.send_to(&[1; 50_000], receiver.local_addr().unwrap()).unwrap();
        receiver
    }

    fn in_unix() -> (UnixStream, UnixStream) {
        let (mut sender, receiver) = UnixStream::pair().unwrap();
        sender.write_all(&[1; 60_000]).unwrap();
        (sender, receiver)
    }
}
