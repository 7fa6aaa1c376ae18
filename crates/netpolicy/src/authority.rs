//! `host` or `host:port`, as in a `Host` header or a URL.

use std::fmt;
use std::net::IpAddr;

use crate::host::{Host, HostError};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    pub host: Host,
    pub port: Option<u16>,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthorityError {
    #[error(transparent)]
    Host(#[from] HostError),
    #[error("a port is a number from 1 to 65535")]
    Port,
    #[error("an IPv6 address is written in brackets here")]
    Brackets,
}

impl Authority {
    /// # Errors
    /// If the host or the port is not written plainly. User parts, paths and white space are no part of a host.
    pub fn parse(text: &str) -> Result<Self, AuthorityError> {
        let (host, port) = split_port(text);
        if host.contains(':') && !host.starts_with('[') {
            return Err(AuthorityError::Brackets);
        }
        Ok(Self { host: Host::parse(host)?, port: port.map(parse_port).transpose()? })
    }
}

/// Cuts the port off. What has several colons and no brackets is an IPv6 address without a port.
pub(crate) fn split_port(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once(':') {
        Some((host, port)) if host.ends_with(']') || !host.contains(':') => (host, Some(port)),
        _ => (text, None),
    }
}

pub(crate) fn parse_port(text: &str) -> Result<u16, AuthorityError> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    text.parse().ok().filter(|_| plain).ok_or(AuthorityError::Port)
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.host {
            Host::Address(IpAddr::V6(v6)) => write!(f, "[{v6}]")?,
            host => write!(f, "{host}")?,
        }
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_authorities_round_trip() {
        for text in ["example.com", "example.com:8080", "192.0.2.1", "192.0.2.1:1", "[2001:db8::1]", "[2001:db8::1]:65535"] {
            assert_eq!(Authority::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Authority::parse("EXAMPLE.com.:80").unwrap().to_string(), "example.com:80");
    }

    #[test]
    fn hostile_authorities_are_refused() {
        for text in [
            "",
            ":80",
            "allowed.com:",
            "allowed.com:0",
            "allowed.com:080",
            "allowed.com:+80",
            "allowed.com:65536",
            "allowed.com:80:80",
            "allowed.com:80@evil.com",
            "allowed.com@evil.com",
            "user:pass@evil.com",
            "allowed.com:80 ",
            " allowed.com",
            "allowed.com/",
            "allowed.com,evil.com",
            "allowed.com:http",
            "::1",
            "::1:80",
            "[::1]80",
            "[::1]]:80",
            "[allowed.com]:80",
            "127.1:80",
            "[fe80::1%25lo]:80",
        ] {
            assert!(Authority::parse(text).is_err(), "{text:?}");
        }
    }
}
