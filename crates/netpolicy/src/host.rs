//! Names of hosts, in one canonical form.
//!
//! A name is checked once and the result is used both to match rules and to resolve and dial. Two programs can then not read
//! the same text differently: whatever some C library would take for a number (`127.1`, `0x7f.1`, `2130706433`) is no name.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

pub const LONGEST_NAME: usize = 253;
pub const LONGEST_LABEL: usize = 63;

/// A domain name: lower case, no trailing dot, letters, digits, `-` and `_` only, and never readable as an address.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostName(Box<str>);

/// What a connection is meant for: a name, or an address written as such.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Host {
    Name(HostName),
    Address(IpAddr),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HostError {
    #[error("a host name cannot be empty")]
    Empty,
    #[error("a host name has at most {LONGEST_NAME} characters")]
    TooLong,
    #[error("each part of a host name has at most {LONGEST_LABEL} characters")]
    LabelTooLong,
    #[error("a host name has no empty parts")]
    EmptyLabel,
    #[error("no part of a host name begins or ends with '-'")]
    Hyphen,
    #[error("a host name is written in ASCII; write an international name in its 'xn--' form")]
    NotAscii,
    #[error("a host name has only letters, digits, '-', '_' and '.', not '{}'", byte.escape_ascii())]
    Byte { byte: u8 },
    #[error("a host name cannot end in a number; write an address as four decimal numbers")]
    Numeric,
    #[error("not an IPv6 address")]
    NotIpv6,
}

impl HostName {
    /// Checks untrusted bytes. Anything that could be read as an address is refused, in whatever base it is written.
    ///
    /// # Errors
    /// Says what keeps the bytes from being a name.
    pub fn parse(bytes: &[u8]) -> Result<Self, HostError> {
        let bytes = bytes.strip_suffix(b".").unwrap_or(bytes);
        if bytes.is_empty() {
            return Err(HostError::Empty);
        }
        if bytes.len() > LONGEST_NAME {
            return Err(HostError::TooLong);
        }
        bytes.split(|byte| *byte == b'.').try_for_each(check_label)?;
        if ends_in_number(bytes) {
            return Err(HostError::Numeric);
        }
        let lower = bytes.iter().map(|byte| char::from(byte.to_ascii_lowercase())).collect::<String>();
        Ok(Self(lower.into_boxed_str()))
    }

    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether this name lies below `parent`, at any depth. A name is not below itself.
    #[must_use]
    pub fn is_below(&self, parent: &Self) -> bool {
        self.0.strip_suffix(parent.as_str()).is_some_and(|rest| rest.ends_with('.'))
    }
}

impl Host {
    /// Reads a name or an address. An address is four decimal numbers, or IPv6 with or without brackets; nothing else that
    /// looks like a number passes.
    ///
    /// # Errors
    /// Says what keeps the text from being either.
    pub fn parse(text: &str) -> Result<Self, HostError> {
        if let Some(inner) = text.strip_prefix('[') {
            return inner.strip_suffix(']').ok_or(HostError::NotIpv6).and_then(ipv6);
        }
        if text.contains(':') {
            return ipv6(text);
        }
        match HostName::parse(text.as_bytes()) {
            Ok(name) => Ok(Self::Name(name)),
            Err(HostError::Numeric) => text.parse::<Ipv4Addr>().map(|v4| Self::Address(v4.into())).map_err(|_| HostError::Numeric),
            Err(error) => Err(error),
        }
    }
}

fn ipv6(text: &str) -> Result<Host, HostError> {
    let address = text.parse::<Ipv6Addr>().map_err(|_| HostError::NotIpv6)?;
    // The kernel treats an IPv4-mapped address as the IPv4 address, so there is one form for both.
    Ok(Host::Address(IpAddr::V6(address).to_canonical()))
}

fn check_label(label: &[u8]) -> Result<(), HostError> {
    if let Some(byte) = label.iter().find(|byte| !byte.is_ascii_alphanumeric() && !matches!(byte, b'-' | b'_')) {
        return Err(if byte.is_ascii() { HostError::Byte { byte: *byte } } else { HostError::NotAscii });
    }
    match label {
        [] => Err(HostError::EmptyLabel),
        _ if label.len() > LONGEST_LABEL => Err(HostError::LabelTooLong),
        [b'-', ..] | [.., b'-'] => Err(HostError::Hyphen),
        _ => Ok(()),
    }
}

/// Every form that `inet_aton` reads ends in a decimal, octal or hexadecimal number, and no top-level domain does.
fn ends_in_number(name: &[u8]) -> bool {
    let last = name.rsplit(|byte| *byte == b'.').next().unwrap_or_default();
    match last {
        [b'0', b'x' | b'X', digits @ ..] => digits.iter().all(u8::is_ascii_hexdigit),
        digits => digits.iter().all(u8::is_ascii_digit),
    }
}

impl FromStr for HostName {
    type Err = HostError;

    fn from_str(text: &str) -> Result<Self, HostError> {
        Self::parse(text.as_bytes())
    }
}

impl FromStr for Host {
    type Err = HostError;

    fn from_str(text: &str) -> Result<Self, HostError> {
        Self::parse(text)
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => name.fmt(f),
            Self::Address(address) => address.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> HostName {
        text.parse().unwrap()
    }

    #[test]
    fn names_have_one_form() {
        for (given, canonical) in [
            ("example.com", "example.com"),
            ("Example.COM", "example.com"),
            ("example.com.", "example.com"),
            ("localhost", "localhost"),
            ("_dmarc.example.com", "_dmarc.example.com"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
            ("XN--BCHER-KVA.example", "xn--bcher-kva.example"),
            ("1.2.3.4.nip.io", "1.2.3.4.nip.io"),
            ("0x7f.example", "0x7f.example"),
            ("0xg", "0xg"),
            ("4.3.2.1.in-addr.arpa", "4.3.2.1.in-addr.arpa"),
            ("deadbeef", "deadbeef"),
        ] {
            assert_eq!(name(given).as_str(), canonical);
            assert_eq!(name(canonical), name(given), "not stable: {given}");
        }
    }

    #[test]
    fn the_longest_name_is_accepted_with_and_without_its_dot_and_one_more_is_not() {
        let label = "a".repeat(63);
        let longest = format!("{label}.{label}.{label}.{}", "a".repeat(61));
        assert_eq!(longest.len(), LONGEST_NAME);
        assert_eq!(name(&longest).as_str(), longest);
        assert_eq!(name(&format!("{longest}.")).as_str(), longest);
        assert_eq!(HostName::parse(format!("{longest}a").as_bytes()), Err(HostError::TooLong));
        assert_eq!(HostName::parse(format!("{longest}a.").as_bytes()), Err(HostError::TooLong));
    }

    #[test]
    fn hostile_names_are_refused() {
        let label_of_64 = format!("{}.com", "a".repeat(64));
        let name_of_256 = "a.".repeat(128);
        let cases: &[(&str, &[u8], HostError)] = &[
            ("nothing", b"", HostError::Empty),
            ("only the root", b".", HostError::Empty),
            ("two trailing dots", b"allowed.com..", HostError::EmptyLabel),
            ("leading dot", b".allowed.com", HostError::EmptyLabel),
            ("empty part", b"evil..allowed.com", HostError::EmptyLabel),
            ("NUL cuts the name in C", b"evil.com\0.allowed.com", HostError::Byte { byte: 0 }),
            ("NUL at the end", b"allowed.com\0", HostError::Byte { byte: 0 }),
            ("new line", b"allowed.com\nevil.com", HostError::Byte { byte: b'\n' }),
            ("carriage return and header", b"allowed.com\r\nHost: evil.com", HostError::Byte { byte: b'\r' }),
            ("space", b"evil.com .allowed.com", HostError::Byte { byte: b' ' }),
            ("tab", b"allowed.com\t", HostError::Byte { byte: b'\t' }),
            ("delete", b"allowed\x7f.com", HostError::Byte { byte: 0x7f }),
            ("percent", b"evil.com%2e.allowed.com", HostError::Byte { byte: b'%' }),
            ("percent NUL", b"evil.com%00.allowed.com", HostError::Byte { byte: b'%' }),
            ("user part", b"allowed.com@evil.com", HostError::Byte { byte: b'@' }),
            ("port", b"allowed.com:80", HostError::Byte { byte: b':' }),
            ("path", b"evil.com/.allowed.com", HostError::Byte { byte: b'/' }),
            ("backslash", b"evil.com\\.allowed.com", HostError::Byte { byte: b'\\' }),
            ("fragment", b"evil.com#.allowed.com", HostError::Byte { byte: b'#' }),
            ("query", b"evil.com?.allowed.com", HostError::Byte { byte: b'?' }),
            ("star", b"*.allowed.com", HostError::Byte { byte: b'*' }),
            ("cyrillic homograph", "\u{430}llowed.com".as_bytes(), HostError::NotAscii),
            ("ideographic full stop", "evil\u{3002}allowed.com".as_bytes(), HostError::NotAscii),
            ("full-width letters", "\u{ff41}llowed.com".as_bytes(), HostError::NotAscii),
            ("soft hyphen", "allow\u{ad}ed.com".as_bytes(), HostError::NotAscii),
            ("not UTF-8", b"allowed\xff.com", HostError::NotAscii),
            ("option", b"-oProxyCommand.allowed.com", HostError::Hyphen),
            ("hyphen at the end", b"allowed-.com", HostError::Hyphen),
            ("part of 64", label_of_64.as_bytes(), HostError::LabelTooLong),
            ("256 bytes", name_of_256.as_bytes(), HostError::TooLong),
        ];
        for (what, bytes, expected) in cases {
            assert_eq!(HostName::parse(bytes).as_ref(), Err(expected), "{what}");
        }
    }

    /// Spellings that `inet_aton` takes for 127.0.0.1 or 169.254.169.254, or that look like it.
    #[test]
    fn nothing_a_c_library_reads_as_a_number_is_a_name_or_an_address() {
        for text in [
            "127.1",
            "127.0.1",
            "2130706433",
            "0x7f.1",
            "0x7f000001",
            "0X7F.0.0.1",
            "017700000001",
            "0177.0.0.1",
            "127.0.0.1.",
            "127.0.0.01",
            "127.0.0.0x1",
            "0",
            "0x",
            "0.",
            "00000000000000000000000000000000000000000000000000000000127.1",
            "2852039166",
            "0xA9FEA9FE",
            "0251.0376.0251.0376",
            "0xa9.0xfe.0xa9.0xfe",
            "169.254.43518",
            "169.16689662",
            "169.254.169.254.",
            "169.254.169.0376",
            "169.254.169.254.0",
            "256.1.1.1",
            "1.2.3",
            "4294967296",
            "evil.com.1",
        ] {
            assert_eq!(HostName::parse(text.as_bytes()), Err(HostError::Numeric), "{text}");
            assert_eq!(Host::parse(text), Err(HostError::Numeric), "{text}");
        }
    }

    #[test]
    fn addresses_are_read_strictly() {
        let address = |text: &str| Host::Address(text.parse().unwrap());
        assert_eq!(Host::parse("169.254.169.254"), Ok(address("169.254.169.254")));
        assert_eq!(Host::parse("2001:DB8::1"), Ok(address("2001:db8::1")));
        assert_eq!(Host::parse("[2001:db8::1]"), Ok(address("2001:db8::1")));
        assert_eq!(Host::parse("[::ffff:169.254.169.254]"), Ok(address("169.254.169.254")));
        assert_eq!(Host::parse("::ffff:a9fe:a9fe"), Ok(address("169.254.169.254")));
        for text in
            ["[::1", "[]", "[127.0.0.1]", "fe80::1%eth0", "[fe80::1%25eth0]", ":::", "1:2:3", "[example.com]", "[::1].", "[[::1]]"]
        {
            assert_eq!(Host::parse(text), Err(HostError::NotIpv6), "{text}");
        }
        for text in ["::1]", " ::1", "::1 ", " 127.0.0.1", "127.0.0.1 ", "\u{0661}27.0.0.1"] {
            assert!(Host::parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn below_means_below_a_dot() {
        let parent = name("allowed.com");
        assert!(name("a.allowed.com").is_below(&parent));
        assert!(name("a.b.allowed.com").is_below(&parent));
        for text in
            ["allowed.com", "evilallowed.com", "allowed.com.evil.com", "allowed.comm", "com", "a-allowed.com", "a_allowed.com"]
        {
            assert!(!name(text).is_below(&parent), "{text}");
        }
    }
}
