//! Messages to the kernel's netlink families: written one after the other into one buffer, sent at once.

use std::io;
use std::os::fd::OwnedFd;

use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType, bind, recv, sendto, socket_with};

pub const REQUEST: u16 = 0x1;
pub const ACKNOWLEDGE: u16 = 0x4;
pub const CREATE: u16 = 0x400;
pub const APPEND: u16 = 0x800;

/// The family that has number 0.
pub const ROUTE: Option<Protocol> = None;
pub const NETFILTER: Option<Protocol> = Some(netlink::NETFILTER);

const NESTED: u16 = 0x8000;
const ERROR: u16 = 2;
const HEADER: usize = 16;

/// Messages in the making. Lengths are filled in when a part ends.
#[derive(Debug, Default)]
pub struct Messages {
    bytes: Vec<u8>,
    acknowledged: usize,
}

impl Messages {
    /// A message of this kind; `fixed` is the structure its family begins with.
    pub fn message(&mut self, kind: u16, flags: u16, fixed: &[u8], attributes: impl FnOnce(&mut Self)) {
        let start = self.bytes.len();
        self.acknowledged += usize::from(flags & ACKNOWLEDGE != 0);
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(&(flags | REQUEST).to_ne_bytes());
        self.bytes.extend_from_slice(&[0; 8]);
        self.bytes.extend_from_slice(fixed);
        self.pad();
        attributes(self);
        let length = (self.bytes.len() - start) as u32;
        self.bytes[start..start + 4].copy_from_slice(&length.to_ne_bytes());
    }

    pub fn attribute(&mut self, kind: u16, value: &[u8]) {
        self.bytes.extend_from_slice(&((value.len() + 4) as u16).to_ne_bytes());
        self.bytes.extend_from_slice(&kind.to_ne_bytes());
        self.bytes.extend_from_slice(value);
        self.pad();
    }

    /// A number as netfilter wants it.
    pub fn number(&mut self, kind: u16, value: u32) {
        self.attribute(kind, &value.to_be_bytes());
    }

    pub fn text(&mut self, kind: u16, value: &str) {
        let mut bytes = value.as_bytes().to_vec();
        bytes.push(0);
        self.attribute(kind, &bytes);
    }

    pub fn nested(&mut self, kind: u16, inner: impl FnOnce(&mut Self)) {
        let start = self.bytes.len();
        self.attribute(kind | NESTED, &[]);
        inner(self);
        let length = (self.bytes.len() - start) as u16;
        self.bytes[start..start + 2].copy_from_slice(&length.to_ne_bytes());
    }

    /// Sends all and waits for what was to be acknowledged. The first error is returned.
    pub fn send(&self, protocol: Option<Protocol>) -> io::Result<()> {
        let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, protocol)?;
        bind(&socket, &SocketAddrNetlink::new(0, 0))?;
        sendto(&socket, &self.bytes, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
        let mut awaited = self.acknowledged;
        while awaited > 0 {
            awaited = awaited.saturating_sub(acknowledgements(&socket)?);
        }
        Ok(())
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

/// How many acknowledgements one datagram has; an error in it is one.
fn acknowledgements(socket: &OwnedFd) -> io::Result<usize> {
    let mut buffer = [0_u8; 4096];
    let received = recv(socket, &mut buffer, RecvFlags::empty())?.0;
    let mut rest = buffer.get(..received).unwrap_or_default();
    let mut count = 0;
    while let Some(header) = rest.first_chunk::<HEADER>() {
        let length = u32::from_ne_bytes([header[0], header[1], header[2], header[3]]) as usize;
        let kind = u16::from_ne_bytes([header[4], header[5]]);
        let message = rest.get(HEADER..length).ok_or(io::ErrorKind::InvalidData)?;
        if kind == ERROR {
            let errno = message.first_chunk::<4>().map(|e| i32::from_ne_bytes(*e)).ok_or(io::ErrorKind::InvalidData)?;
            if errno != 0 {
                return Err(io::Error::from_raw_os_error(-errno));
            }
            count += 1;
        }
        rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_padded_and_their_lengths_are_true() {
        let mut messages = Messages::default();
        messages.message(5, CREATE, &[1, 2], |m| {
            m.nested(3, |m| m.text(1, "ab"));
            m.number(2, 7);
        });
        let bytes = &messages.bytes;
        assert_eq!(bytes.len(), 16 + 4 + (4 + 8) + 8);
        assert_eq!(u32::from_ne_bytes(bytes[0..4].try_into().unwrap()) as usize, bytes.len());
        assert_eq!(u16::from_ne_bytes(bytes[20..22].try_into().unwrap()), 12);
        assert_eq!(u16::from_ne_bytes(bytes[22..24].try_into().unwrap()), 3 | NESTED);
        assert_eq!(&bytes[24..32], &[7, 0, 1, 0, b'a', b'b', 0, 0]);
        assert_eq!(&bytes[36..40], &[0, 0, 0, 7]);
    }
}
