//! Rules from and to text.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use super::http_scope::{HttpScope, MethodError};
use super::{Pattern, Ports, Rule};
use crate::address;
use crate::authority::{AuthorityError, parse_port, split_port};
use crate::host::{Host, HostError};
use crate::network::{Network, NetworkError};
use crate::path::{PathError, PathPrefix};
use crate::synthetic::IPV4_POOL;

/// Longer than any rule can be that is of use; keeps what an error repeats short.
const LONGEST_RULE: usize = 1024;
const HTTP_PORT: u16 = 80;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RuleError {
    #[error("a rule cannot be empty; write a domain, *.domain, an address or a network, each with an optional :port")]
    Empty,
    #[error("a rule has at most {LONGEST_RULE} characters")]
    TooLong,
    #[error("in '{rule}': {problem}")]
    Wrong { rule: String, problem: Problem },
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error(transparent)]
    Host(#[from] HostError),
    #[error(transparent)]
    Network(#[from] NetworkError),
    #[error(transparent)]
    Path(#[from] PathError),
    #[error(transparent)]
    Method(#[from] MethodError),
    #[error("a port is a number from 1 to 65535, or '*' for every port")]
    Port,
    #[error("an IPv6 address or network with a port is written in brackets, like [2001:db8::1]:443")]
    Brackets,
    #[error("'*' alone is no rule; name a domain, or use --net host for everything")]
    Everything,
    #[error("'*' stands only at the front and for whole parts, like *.example.com")]
    Star,
    #[error("traffic over TLS cannot be filtered by path; write {0}")]
    Https(String),
    #[error("only http:// can stand before a host")]
    Scheme,
    #[error("an http rule is for one host and one port; '{0}' is neither")]
    NotOneHost(String),
    #[error("a user has no place in a rule")]
    User,
    #[error("{0} is not an address one can connect to")]
    NotOneAddress(IpAddr),
    #[error("{0} is where names get their addresses inside; allow the name instead")]
    Synthetic(Network),
}

/// Reads rules separated by commas.
///
/// # Errors
/// The first rule that is wrong.
pub fn parse_list(text: &str) -> Result<Vec<Rule>, RuleError> {
    text.split(',').map(str::parse).collect()
}

impl FromStr for Rule {
    type Err = RuleError;

    fn from_str(text: &str) -> Result<Self, RuleError> {
        match text.len() {
            0 => Err(RuleError::Empty),
            1..=LONGEST_RULE => parse(text).map_err(|problem| RuleError::Wrong { rule: text.escape_debug().to_string(), problem }),
            _ => Err(RuleError::TooLong),
        }
    }
}

fn parse(text: &str) -> Result<Rule, Problem> {
    if let Some((scheme, rest)) = text.split_once("://") {
        return parse_http(scheme, rest);
    }
    refuse_user(text)?;
    let (host, port) = split_port(text);
    let ports = match port {
        None | Some("*") => Ports::Any,
        Some(number) => Ports::One(port_number(number)?),
    };
    Ok(Rule { pattern: parse_pattern(host)?, ports, http: None })
}

fn parse_http(scheme: &str, rest: &str) -> Result<Rule, Problem> {
    let (authority, path) = rest.find('/').map_or((rest, "/"), |slash| rest.split_at(slash));
    let mut words = scheme.split('+');
    match words.next() {
        Some("http") => {}
        Some("https") => return Err(Problem::Https(authority.escape_debug().to_string())),
        _ => return Err(Problem::Scheme),
    }
    refuse_user(authority)?;
    let (host, port) = split_port(authority);
    let pattern = parse_pattern(host)?;
    if port == Some("*") || matches!(pattern, Pattern::Network(_)) {
        return Err(Problem::NotOneHost(authority.escape_debug().to_string()));
    }
    let port = port.map_or(Ok(HTTP_PORT), port_number)?;
    let scope = HttpScope::new(words, PathPrefix::parse(path)?)?;
    Ok(Rule { pattern, ports: Ports::One(port), http: Some(scope) })
}

/// Before anything is cut at a colon: a password can look like a port.
fn refuse_user(authority: &str) -> Result<(), Problem> {
    if authority.contains('@') { Err(Problem::User) } else { Ok(()) }
}

fn port_number(text: &str) -> Result<u16, Problem> {
    parse_port(text).map_err(|_: AuthorityError| Problem::Port)
}

fn parse_pattern(host: &str) -> Result<Pattern, Problem> {
    if host == "*" {
        return Err(Problem::Everything);
    }
    if let Some(parent) = host.strip_prefix("*.") {
        return match Host::parse(parent) {
            Ok(Host::Name(parent)) => Ok(Pattern::Below(parent)),
            Ok(Host::Address(_)) => Err(Problem::Star),
            Err(error) => Err(star_or(parent, error)),
        };
    }
    let bare = host.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')).filter(|inner| inner.contains(':'));
    if bare.unwrap_or(host).contains('/') {
        return parse_network(bare.unwrap_or(host));
    }
    match Host::parse(host).map_err(|error| star_or(host, error))? {
        Host::Name(name) => Ok(Pattern::Exact(name)),
        Host::Address(address) => parse_address(address),
    }
}

fn parse_address(address: IpAddr) -> Result<Pattern, Problem> {
    if !address::classify(address).is_one_host() {
        return Err(Problem::NotOneAddress(address));
    }
    if IPV4_POOL.contains(address) {
        return Err(Problem::Synthetic(IPV4_POOL));
    }
    Ok(Pattern::Address(address))
}

fn parse_network(text: &str) -> Result<Pattern, Problem> {
    let network = text.parse::<Network>().map_err(|error| match text.rsplit_once('/') {
        Some((base, prefix)) if base.contains(':') && prefix.contains(':') => Problem::Brackets,
        _ => Problem::Network(error),
    })?;
    if network.is_one_address() {
        return parse_address(network.base());
    }
    if address::special_range(&network).is_some_and(|class| !class.is_one_host()) {
        return Err(Problem::NotOneAddress(network.base()));
    }
    if IPV4_POOL.contains_network(&network) {
        return Err(Problem::Synthetic(IPV4_POOL));
    }
    Ok(Pattern::Network(network))
}

fn star_or(host: &str, error: HostError) -> Problem {
    if host.contains('*') { Problem::Star } else { Problem::Host(error) }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(scope) = &self.http {
            f.write_str("http")?;
            scope.methods().iter().try_for_each(|method| write!(f, "+{}", method.to_ascii_lowercase()))?;
            f.write_str("://")?;
        }
        let default_port = if self.http.is_some() { Ports::One(HTTP_PORT) } else { Ports::Any };
        let has_port = self.ports != default_port;
        let in_brackets = has_port || self.http.is_some();
        match &self.pattern {
            Pattern::Exact(name) => write!(f, "{name}")?,
            Pattern::Below(parent) => write!(f, "*.{parent}")?,
            Pattern::Address(address @ IpAddr::V6(_)) if in_brackets => write!(f, "[{address}]")?,
            Pattern::Network(network) if in_brackets && network.base().is_ipv6() => write!(f, "[{network}]")?,
            Pattern::Address(address) => write!(f, "{address}")?,
            Pattern::Network(network) => write!(f, "{network}")?,
        }
        match self.ports {
            Ports::One(port) if has_port => write!(f, ":{port}")?,
            Ports::One(_) | Ports::Any => {}
        }
        self.http.as_ref().map_or(Ok(()), |scope| f.write_str(scope.prefix().as_str()))
    }
}

impl TryFrom<String> for Rule {
    type Error = RuleError;

    fn try_from(text: String) -> Result<Self, RuleError> {
        text.parse()
    }
}

impl From<Rule> for String {
    fn from(rule: Rule) -> Self {
        rule.to_string()
    }
}

#[cfg(test)]
mod tests {
    use serde::de::IntoDeserializer as _;
    use serde::de::value::{Error, StrDeserializer};
    use serde::{Deserialize as _, Serialize as _};

    use super::*;

    #[test]
    fn rules_round_trip() {
        for text in [
            "example.com",
            "example.com:8443",
            "*.example.com",
            "*.example.com:22",
            "192.0.2.1",
            "192.0.2.1:443",
            "192.0.2.0/24",
            "192.0.2.0/24:53",
            "2001:db8::1",
            "[2001:db8::1]:443",
            "2001:db8::/32",
            "[2001:db8::/32]:80",
            "0.0.0.0/0",
            "::/0",
            "169.254.169.254:80",
            "http://example.com/",
            "http://*.example.com:8080/pub/",
            "http+get+head://example.com/pub",
            "http+get://[2001:db8::1]/",
            "http+get://[2001:db8::1]:81/a",
        ] {
            let rule = text.parse::<Rule>().unwrap();
            assert_eq!(rule.to_string(), text);
            assert_eq!(text.parse::<Rule>().unwrap(), rule);
        }
    }

    #[test]
    fn other_spellings_become_the_one_form() {
        for (text, canonical) in [
            ("EXAMPLE.com.", "example.com"),
            ("example.com:*", "example.com"),
            ("*.example.com:*", "*.example.com"),
            ("192.0.2.1:*", "192.0.2.1"),
            ("[2001:db8::1]:*", "2001:db8::1"),
            ("[2001:db8::/32]:*", "2001:db8::/32"),
            ("*.Example.com.:22", "*.example.com:22"),
            ("[2001:DB8:0::1]", "2001:db8::1"),
            ("[2001:db8::/32]", "2001:db8::/32"),
            ("::ffff:192.0.2.1", "192.0.2.1"),
            ("169.254.169.254/32", "169.254.169.254"),
            ("[fd00::1/128]:53", "[fd00::1]:53"),
            ("[::ffff:192.0.2.1]:53", "192.0.2.1:53"),
            ("http://example.com", "http://example.com/"),
            ("http://example.com:80/a", "http://example.com/a"),
            ("http+head+get+get://example.com", "http+get+head://example.com/"),
        ] {
            assert_eq!(text.parse::<Rule>().unwrap().to_string(), canonical);
        }
    }

    #[test]
    fn wrong_rules_say_what_to_write() {
        for (text, part) in [
            ("", "cannot be empty"),
            ("*", "--net host"),
            ("*:443", "--net host"),
            ("*.", "cannot be empty"),
            ("*.*.example.com", "only at the front"),
            ("*example.com", "only at the front"),
            ("www.*.com", "only at the front"),
            ("*.192.0.2.1", "only at the front"),
            ("*.10", "four decimal numbers"),
            ("b\u{fc}cher.example", "xn--"),
            ("\u{430}llowed.com", "xn--"),
            ("user@example.com", "a user has no place"),
            ("http://user:pw@example.com/", "a user has no place"),
            ("example.com:", "from 1 to 65535"),
            ("example.com:0", "from 1 to 65535"),
            ("example.com:http", "from 1 to 65535"),
            ("example.com:65536", "from 1 to 65535"),
            ("example.com/path", "not a network"),
            ("evil.com\0.allowed.com", "'\\x00'"),
            ("example.com ", "not ' '"),
            ("127.1", "four decimal numbers"),
            ("0x7f.0.0.1", "four decimal numbers"),
            ("2852039166", "four decimal numbers"),
            ("10.0.0.1/8", "write 10.0.0.0/8"),
            ("10.0.0.0/33", "at most 32"),
            ("::ffff:0:0/96", "IPv4 form"),
            ("2001:db8::/32:443", "brackets"),
            ("0.0.0.0", "not an address one can connect to"),
            ("::", "not an address one can connect to"),
            ("224.0.0.1", "not an address one can connect to"),
            ("255.255.255.255", "not an address one can connect to"),
            ("239.0.0.0/8", "not an address one can connect to"),
            ("ff00::/8", "not an address one can connect to"),
            ("198.18.0.7", "names get their addresses"),
            ("198.18.0.0/16", "names get their addresses"),
            ("https://example.com/path", "write example.com"),
            ("ftp://example.com/", "only http://"),
            ("get://example.com/", "only http://"),
            ("http+://example.com/", "methods are written"),
            ("http+GET://example.com/", "methods are written"),
            ("http+get head://example.com/", "methods are written"),
            ("http://10.0.0.0/8/path/../x", "plain"),
            ("http://example.com:*/", "one host"),
            ("http://example.com/a%2fb", "plain"),
            ("http://example.com/../b", "plain"),
        ] {
            let message = text.parse::<Rule>().expect_err(text).to_string();
            assert!(message.contains(part), "{text}: {message}");
        }
        assert_eq!("a".repeat(2000).parse::<Rule>(), Err(RuleError::TooLong));
    }

    #[test]
    fn lists_are_split_at_commas() {
        let rules = parse_list("example.com,*.example.org:22,http+get+head://a.example/x").unwrap();
        assert_eq!(rules.len(), 3);
        assert!(parse_list("example.com,").is_err());
        assert!(parse_list("example.com, example.org").is_err());
    }

    #[test]
    fn rules_are_stored_as_text() {
        struct Stored(Rule);
        impl fmt::Display for Stored {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.serialize(f)
            }
        }
        let read = |text: &str| {
            let source: StrDeserializer<'_, Error> = text.into_deserializer();
            Rule::deserialize(source)
        };
        let rule = read("*.example.com:22").unwrap();
        assert_eq!(Stored(rule).to_string(), "*.example.com:22");
        assert!(read("*").unwrap_err().to_string().contains("--net host"));
    }
}
