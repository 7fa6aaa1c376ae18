//! Where a secret may go: one host, one port, one transport.

use std::fmt;
use std::str::FromStr;

use whatif_netpolicy::authority::AuthorityError;
use whatif_netpolicy::{Authority, Host, HostName};

/// Written as `api.example.com` (HTTPS on port 443), `api.example.com:8443`, or `http://api.example.com`: whoever wants a
/// secret to cross the network in clear has to say so.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Destination {
    pub host: HostName,
    pub port: u16,
    pub transport: Transport,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transport {
    Tls,
    /// HTTP without TLS.
    Plain,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DestinationError {
    #[error("'{text}' is not a host a secret can be for: {source}; write api.example.com, or with a port api.example.com:8443")]
    Malformed { text: String, source: AuthorityError },
    #[error("a secret is for a name, not for the address {text}: a certificate proves who has a name")]
    Address { text: String },
    #[error("a secret is for exactly one host, not for all below '{text}'; name each host")]
    Wildcard { text: String },
    #[error("a secret is for a whole host; leave out what follows it in '{text}'")]
    Path { text: String },
    #[error("'{text}' is neither https:// nor http://")]
    Scheme { text: String },
}

impl FromStr for Destination {
    type Err = DestinationError;

    fn from_str(given: &str) -> Result<Self, DestinationError> {
        let text = given.escape_debug().to_string();
        let (transport, rest) = match given.split_once("://") {
            None => (Transport::Tls, given),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("https") => (Transport::Tls, rest),
            Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http") => (Transport::Plain, rest),
            Some(_) => return Err(DestinationError::Scheme { text }),
        };
        let authority = rest.strip_suffix('/').unwrap_or(rest);
        if authority.contains('*') || authority.starts_with('.') {
            return Err(DestinationError::Wildcard { text });
        }
        if authority.contains(['/', '?', '#']) {
            return Err(DestinationError::Path { text });
        }
        match Authority::parse(authority) {
            Ok(Authority { host: Host::Name(host), port }) => {
                Ok(Self { host, port: port.unwrap_or(transport.default_port()), transport })
            }
            Ok(Authority { host: Host::Address(_), .. }) | Err(AuthorityError::Brackets) => Err(DestinationError::Address { text }),
            Err(source) => Err(DestinationError::Malformed { text, source }),
        }
    }
}

impl Transport {
    fn default_port(self) -> u16 {
        match self {
            Self::Tls => 443,
            Self::Plain => 80,
        }
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.transport == Transport::Plain {
            f.write_str("http://")?;
        }
        write!(f, "{}", self.host)?;
        if self.port == self.transport.default_port() { Ok(()) } else { write!(f, ":{}", self.port) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_destination_is_a_host_and_tls_unless_it_says_http() {
        for (text, canonical, port, transport) in [
            ("api.example.com", "api.example.com", 443, Transport::Tls),
            ("API.Example.com.", "api.example.com", 443, Transport::Tls),
            ("api.example.com:443", "api.example.com", 443, Transport::Tls),
            ("api.example.com:8443", "api.example.com:8443", 8443, Transport::Tls),
            ("https://api.example.com/", "api.example.com", 443, Transport::Tls),
            ("https://api.example.com:80", "api.example.com:80", 80, Transport::Tls),
            ("http://api.example.com", "http://api.example.com", 80, Transport::Plain),
            ("HTTP://localhost:3000/", "http://localhost:3000", 3000, Transport::Plain),
        ] {
            let destination = text.parse::<Destination>().unwrap();
            assert_eq!((destination.port, destination.transport), (port, transport), "{text}");
            assert_eq!(destination.to_string(), canonical);
            assert_eq!(canonical.parse::<Destination>().unwrap(), destination);
        }
    }

    #[test]
    fn what_is_not_exactly_one_host_is_refused_with_a_reason() {
        for (text, part) in [
            ("", "empty"),
            ("*.example.com", "exactly one host"),
            (".example.com", "exactly one host"),
            ("192.0.2.1", "not for the address"),
            ("[2001:db8::1]:443", "not for the address"),
            ("2001:db8::1", "not for the address"),
            ("https://api.example.com/v1", "leave out what follows"),
            ("api.example.com?x", "leave out what follows"),
            ("ftp://api.example.com", "neither https:// nor http://"),
            ("user@api.example.com", "not '@'"),
            ("api.example.com:0", "from 1 to 65535"),
            ("api.example.com:99999", "from 1 to 65535"),
            ("api example.com", "not ' '"),
            ("127.1", "end in a number"),
        ] {
            let error = text.parse::<Destination>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
