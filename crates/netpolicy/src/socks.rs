//! SOCKS 5 without a password and for outgoing connections only.

use std::net::{Ipv4Addr, Ipv6Addr};

use crate::Host;
use crate::host::HostError;
use crate::reader::Reader;

const SOCKS4: u8 = 4;
const SOCKS5: u8 = 5;
const NO_PASSWORD: u8 = 0;
const NONE_SUITS: u8 = 0xff;
const CONNECT: u8 = 1;
const IPV4: u8 = 1;
const NAME: u8 = 3;
const IPV6: u8 = 4;
/// SOCKS 4, with or without names: "request rejected", then a port and an address that mean nothing.
const REJECTED4: [u8; 8] = [0, 0x5b, 0, 0, 0, 0, 0, 0];

/// The first message. More bytes turn `NeedMore` into something else and change nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Greeting {
    NeedMore,
    /// Send `reply`; the request begins after `consumed` bytes.
    Accept {
        consumed: usize,
        reply: [u8; 2],
    },
    /// Send `reply` and close.
    Refuse {
        because: SocksError,
        reply: Vec<u8>,
    },
    NotSocks,
}

/// The second message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SocksRequest {
    NeedMore,
    /// What the client sends itself begins after `consumed` bytes. Answer with [`reply`].
    Connect {
        host: Host,
        port: u16,
        consumed: usize,
    },
    /// Send `reply` and close.
    Refuse {
        because: SocksError,
        reply: [u8; 10],
    },
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SocksError {
    #[error("SOCKS 4 is not spoken here; use socks5h://")]
    Socks4,
    #[error("the client offers no way in without a password")]
    NoMethod,
    #[error("the request is not of SOCKS 5")]
    Version,
    #[error("only CONNECT is served")]
    Command,
    #[error("the reserved byte is not zero")]
    Reserved,
    #[error("the kind of address is unknown")]
    AddressKind,
    #[error("the host is malformed: {0}")]
    Host(#[from] HostError),
    #[error("the port is zero")]
    Port,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Reply {
    Succeeded = 0,
    GeneralFailure = 1,
    NotAllowed = 2,
    NetworkUnreachable = 3,
    HostUnreachable = 4,
    ConnectionRefused = 5,
    TimedOut = 6,
    CommandNotSupported = 7,
    AddressKindNotSupported = 8,
}

/// The answer to a request. The address it was bound to is nobody's business and is given as zeros.
#[must_use]
pub fn reply(reply: Reply) -> [u8; 10] {
    [SOCKS5, reply as u8, 0, IPV4, 0, 0, 0, 0, 0, 0]
}

#[must_use]
pub fn parse_greeting(buffer: &[u8]) -> Greeting {
    let mut reader = Reader::new(buffer);
    match reader.u8() {
        None => return Greeting::NeedMore,
        Some(SOCKS5) => {}
        Some(SOCKS4) => return Greeting::Refuse { because: SocksError::Socks4, reply: REJECTED4.to_vec() },
        Some(_) => return Greeting::NotSocks,
    }
    let Some(methods) = reader.vector8() else { return Greeting::NeedMore };
    if methods.contains(&NO_PASSWORD) {
        Greeting::Accept { consumed: 2 + methods.len(), reply: [SOCKS5, NO_PASSWORD] }
    } else {
        Greeting::Refuse { because: SocksError::NoMethod, reply: vec![SOCKS5, NONE_SUITS] }
    }
}

#[must_use]
pub fn parse_request(buffer: &[u8]) -> SocksRequest {
    let mut reader = Reader::new(buffer);
    match request(&mut reader) {
        None => SocksRequest::NeedMore,
        Some(Ok((host, port))) => SocksRequest::Connect { host, port, consumed: buffer.len() - reader.rest().len() },
        Some(Err(because)) => {
            let code = match because {
                SocksError::Command => Reply::CommandNotSupported,
                SocksError::AddressKind => Reply::AddressKindNotSupported,
                _ => Reply::GeneralFailure,
            };
            SocksRequest::Refuse { because, reply: reply(code) }
        }
    }
}

/// `None` while bytes are missing. Each byte is judged before the next is asked for, so that more bytes never change a verdict.
fn request(reader: &mut Reader<'_>) -> Option<Result<(Host, u16), SocksError>> {
    if reader.u8()? != SOCKS5 {
        return Some(Err(SocksError::Version));
    }
    if reader.u8()? != CONNECT {
        return Some(Err(SocksError::Command));
    }
    if reader.u8()? != 0 {
        return Some(Err(SocksError::Reserved));
    }
    let host = match reader.u8()? {
        IPV4 => Ok(Host::Address(Ipv4Addr::from(reader.array::<4>()?).into())),
        IPV6 => Ok(Host::Address(std::net::IpAddr::V6(Ipv6Addr::from(reader.array::<16>()?)).to_canonical())),
        NAME => named_host(reader.vector8()?),
        _ => return Some(Err(SocksError::AddressKind)),
    };
    let host = match host {
        Ok(host) => host,
        Err(error) => return Some(Err(SocksError::Host(error))),
    };
    Some(match reader.u16()? {
        0 => Err(SocksError::Port),
        port => Ok((host, port)),
    })
}

/// Clients send addresses as names too; these are addresses here.
fn named_host(bytes: &[u8]) -> Result<Host, HostError> {
    let text = std::str::from_utf8(bytes).map_err(|_| HostError::NotAscii)?;
    // Brackets belong to URLs.
    if text.starts_with('[') { Err(HostError::Byte { byte: b'[' }) } else { Host::parse(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_name(name: &[u8]) -> Vec<u8> {
        [&[5, 1, 0, 3, u8::try_from(name.len()).unwrap()], name, &[0x01, 0xbb]].concat()
    }

    fn refusal(bytes: &[u8]) -> (SocksError, u8) {
        match parse_request(bytes) {
            SocksRequest::Refuse { because, reply } => (because, reply[1]),
            other => panic!("{}: {other:?}", bytes.escape_ascii()),
        }
    }

    #[test]
    fn greetings() {
        assert_eq!(parse_greeting(b"\x05\x01\x00"), Greeting::Accept { consumed: 3, reply: [5, 0] });
        assert_eq!(parse_greeting(b"\x05\x02\x02\x00\x05\x01"), Greeting::Accept { consumed: 4, reply: [5, 0] });
        assert_eq!(parse_greeting(b"\x05\x01\x02"), Greeting::Refuse { because: SocksError::NoMethod, reply: vec![5, 0xff] });
        assert_eq!(parse_greeting(b"\x05\x00"), Greeting::Refuse { because: SocksError::NoMethod, reply: vec![5, 0xff] });
        for short in [&b""[..], b"\x05", b"\x05\x02\x00"] {
            assert_eq!(parse_greeting(short), Greeting::NeedMore);
        }
        assert_eq!(parse_greeting(b"GET / HTTP/1.1\r\n"), Greeting::NotSocks);
    }

    #[test]
    fn socks_4_with_and_without_names_is_refused_in_its_own_words() {
        let rejected = Greeting::Refuse { because: SocksError::Socks4, reply: vec![0, 0x5b, 0, 0, 0, 0, 0, 0] };
        assert_eq!(parse_greeting(b"\x04\x01\x00\x50\x01\x01\x01\x01user\0"), rejected);
        assert_eq!(parse_greeting(b"\x04\x01\x00\x50\x00\x00\x00\x01\0allowed.com\0"), rejected);
        assert_eq!(parse_greeting(b"\x04"), rejected);
    }

    #[test]
    fn requests_name_a_host_in_three_ways() {
        let host = |text: &str| Host::parse(text).unwrap();
        let expect = |bytes: &[u8], text: &str| {
            let with_more = [bytes, b"more"].concat();
            assert_eq!(parse_request(&with_more), SocksRequest::Connect { host: host(text), port: 443, consumed: bytes.len() });
            for cut in 0..bytes.len() {
                assert_eq!(parse_request(&bytes[..cut]), SocksRequest::NeedMore, "cut at {cut}");
            }
        };
        expect(b"\x05\x01\x00\x01\x01\x02\x03\x04\x01\xbb", "1.2.3.4");
        expect(b"\x05\x01\x00\x04\x20\x01\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\x01\x01\xbb", "2001:db8::1");
        expect(b"\x05\x01\x00\x04\0\0\0\0\0\0\0\0\0\0\xff\xff\xa9\xfe\xa9\xfe\x01\xbb", "169.254.169.254");
        expect(&with_name(b"Example.com."), "example.com");
        expect(&with_name(b"169.254.169.254"), "169.254.169.254");
        expect(&with_name(b"::ffff:169.254.169.254"), "169.254.169.254");
    }

    #[test]
    fn hostile_requests_are_refused() {
        let host = |error| (SocksError::Host(error), 1);
        for (what, bytes, expected) in [
            ("another version", b"\x04\x01\x00\x01".to_vec(), (SocksError::Version, 1)),
            ("BIND", b"\x05\x02\x00\x01".to_vec(), (SocksError::Command, 7)),
            ("UDP", b"\x05\x03\x00\x01".to_vec(), (SocksError::Command, 7)),
            ("resolve", b"\x05\xf0\x00\x03".to_vec(), (SocksError::Command, 7)),
            ("reserved byte", b"\x05\x01\x01\x01".to_vec(), (SocksError::Reserved, 1)),
            ("unknown kind", b"\x05\x01\x00\x02".to_vec(), (SocksError::AddressKind, 8)),
            ("port zero", b"\x05\x01\x00\x01\x01\x02\x03\x04\x00\x00".to_vec(), (SocksError::Port, 1)),
            ("empty name", with_name(b""), host(HostError::Empty)),
            ("NUL", with_name(b"evil.com\0.allowed.com"), host(HostError::Byte { byte: 0 })),
            ("NUL at the end", with_name(b"allowed.com\0"), host(HostError::Byte { byte: 0 })),
            ("header in a name", with_name(b"allowed.com\r\nX: y"), host(HostError::NotIpv6)),
            ("user part", with_name(b"allowed.com@evil.com"), host(HostError::Byte { byte: b'@' })),
            ("port in a name", with_name(b"allowed.com:80"), host(HostError::NotIpv6)),
            ("brackets", with_name(b"[::1]"), host(HostError::Byte { byte: b'[' })),
            ("zone", with_name(b"fe80::1%eth0"), host(HostError::NotIpv6)),
            ("not text", with_name(b"\xff\xfe"), host(HostError::NotAscii)),
            ("homograph", with_name("\u{430}llowed.com".as_bytes()), host(HostError::NotAscii)),
            ("255 bytes", with_name(&[b'a'; 255]), host(HostError::TooLong)),
            ("loopback in short", with_name(b"127.1"), host(HostError::Numeric)),
            ("metadata in one number", with_name(b"2852039166"), host(HostError::Numeric)),
            ("metadata in octal", with_name(b"0251.0376.0251.0376"), host(HostError::Numeric)),
        ] {
            assert_eq!(refusal(&bytes), expected, "{what}");
        }
    }

    #[test]
    fn replies_have_a_fixed_shape() {
        assert_eq!(reply(Reply::Succeeded), [5, 0, 0, 1, 0, 0, 0, 0, 0, 0]);
        assert_eq!(reply(Reply::NotAllowed), [5, 2, 0, 1, 0, 0, 0, 0, 0, 0]);
    }
}
