//! Rules and how they are written.
//!
//! | text | what it covers |
//! | --- | --- |
//! | `example.com` | that name |
//! | `*.example.com` | every name below it, at any depth, but not `example.com` |
//! | `192.0.2.1`, `2001:db8::1` | that address |
//! | `192.0.2.0/24`, `2001:db8::/32` | the public addresses of that network; the private ones too if it is private as a whole |
//! | `http://example.com/pub` | plain HTTP only, below that path |
//! | `http+get+head://example.com/pub` | the same, with these methods only |
//!
//! A port follows as usual: `example.com:8443`, `[2001:db8::1]:5432`, `[2001:db8::/32]:53`. Without one, a rule is for every
//! port; `:*` says the same and is not needed. An `http` rule is for port 80 unless it says another.
//!
//! Methods stand in the scheme, as in `git+ssh`, because a rule has to be one word in a shell, commas separate rules, spaces
//! want quoting, and anything before an `@` reads as a user.
//!
//! Naming an address that is not public is permission to go there. Naming a domain never is: whoever owns the domain decides
//! where it points. A network is such permission only if it lies within one special range, and never for a metadata service,
//! which has to be named itself.

mod http_scope;
mod text;

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

use crate::address;
use crate::network::Network;
use crate::{AddressClass, Host, HostName};

pub use http_scope::{HttpScope, MethodError};
pub use text::{Problem, RuleError, parse_list};

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Rule {
    pattern: Pattern,
    ports: Ports,
    http: Option<HttpScope>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Pattern {
    Exact(HostName),
    Below(HostName),
    Address(IpAddr),
    Network(Network),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ports {
    Any,
    One(u16),
}

impl Ports {
    #[must_use]
    pub fn include(self, port: u16) -> bool {
        match self {
            Self::Any => true,
            Self::One(one) => one == port,
        }
    }
}

impl Rule {
    #[must_use]
    pub fn pattern(&self) -> &Pattern {
        &self.pattern
    }

    #[must_use]
    pub fn ports(&self) -> Ports {
        self.ports
    }

    /// What an `http` rule narrows requests to; `None` for a rule about all traffic.
    #[must_use]
    pub fn http(&self) -> Option<&HttpScope> {
        self.http.as_ref()
    }

    /// The narrowest rule for all traffic to one host and port.
    #[must_use]
    pub fn for_host(host: &Host, port: u16) -> Self {
        let pattern = match host {
            Host::Name(name) => Pattern::Exact(name.clone()),
            Host::Address(address) => Pattern::Address(address.to_canonical()),
        };
        Self { pattern, ports: Ports::One(port), http: None }
    }

    /// Whether the rule is about this name.
    #[must_use]
    pub fn names(&self, name: &HostName) -> bool {
        match &self.pattern {
            Pattern::Exact(exact) => exact == name,
            Pattern::Below(parent) => name.is_below(parent),
            Pattern::Address(_) | Pattern::Network(_) => false,
        }
    }

    /// Whether the rule permits this address, be it public or not.
    #[must_use]
    pub fn permits_address(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let class = address::classify(address);
        match &self.pattern {
            Pattern::Address(exact) => *exact == address && class.is_one_host(),
            Pattern::Network(network) => {
                // Whoever writes down a part of one special range means that range.
                let is_meant = class.is_one_host() && class != AddressClass::Metadata && address::special_range(network).is_some();
                network.contains(address) && (class.is_public() || is_meant)
            }
            Pattern::Exact(_) | Pattern::Below(_) => false,
        }
    }

    /// Whether a deny rule touches this address, or an address that it wraps.
    #[must_use]
    pub fn touches_address(&self, address: IpAddr) -> bool {
        let inner = match address {
            IpAddr::V6(v6) => address::leads_to(v6),
            IpAddr::V4(_) => [None, None],
        };
        let touches = |address: IpAddr| match &self.pattern {
            Pattern::Address(exact) => *exact == address,
            Pattern::Network(network) => network.contains(address),
            Pattern::Exact(_) | Pattern::Below(_) => false,
        };
        touches(address) || inner.into_iter().flatten().any(|v4| touches(v4.into()))
    }

    #[must_use]
    pub fn is_about(&self, host: &Host) -> bool {
        match host {
            Host::Name(name) => self.names(name),
            Host::Address(address) => self.permits_address(*address),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(text: &str) -> Rule {
        text.parse().unwrap()
    }

    fn name(text: &str) -> HostName {
        text.parse().unwrap()
    }

    #[test]
    fn an_exact_name_covers_itself_only() {
        let exact = rule("allowed.com");
        assert!(exact.names(&name("allowed.com")) && exact.names(&name("ALLOWED.com.")));
        for text in ["evilallowed.com", "allowed.com.evil.com", "www.allowed.com", "allowed.co", "com", "allowed.com-evil.com"] {
            assert!(!exact.names(&name(text)), "{text}");
        }
    }

    #[test]
    fn a_star_covers_what_lies_below_a_dot() {
        let below = rule("*.allowed.com");
        assert!(below.names(&name("a.allowed.com")) && below.names(&name("a.b.allowed.com")));
        for text in ["allowed.com", "evilallowed.com", "allowed.com.evil.com", "a.allowed.com.evil.com", "a.notallowed.com"] {
            assert!(!below.names(&name(text)), "{text}");
        }
    }

    #[test]
    fn what_each_rule_permits_by_address() {
        for (text, permitted, refused) in [
            ("1.1.1.1", &["1.1.1.1", "::ffff:1.1.1.1"][..], &["1.1.1.2", "64:ff9b::1.1.1.1", "::1.1.1.1"][..]),
            ("169.254.169.254", &["169.254.169.254", "::ffff:169.254.169.254"], &["169.254.169.253", "64:ff9b::a9fe:a9fe"]),
            ("10.0.0.5", &["10.0.0.5"], &["10.0.0.6"]),
            ("fd00:ec2::254", &["fd00:ec2::254"], &["fd00:ec2::253"]),
            ("1.1.1.0/24", &["1.1.1.0", "1.1.1.255"], &["1.1.2.0"]),
            ("10.0.0.0/8", &["10.0.0.1", "::ffff:10.0.0.1"], &["11.0.0.1", "2002:a00:1::1"]),
            ("10.1.0.0/16", &["10.1.0.1"], &["10.2.0.1"]),
            ("0.0.0.0/0", &["1.1.1.1"], &["10.0.0.1", "127.0.0.1", "169.254.169.254", "198.18.0.1", "0.0.0.0", "2606:4700::1"]),
            ("8.0.0.0/6", &["8.8.8.8"], &["10.0.0.1"]),
            ("169.254.0.0/16", &["169.254.1.1"], &["169.254.169.254", "169.254.170.2"]),
            ("100.64.0.0/10", &["100.64.0.1"], &["100.100.100.200"]),
            ("168.63.0.0/16", &["168.63.0.1"], &["168.63.129.16"]),
            (
                "::/0",
                &["2606:4700::1"],
                &["::1", "fd00::1", "::ffff:1.1.1.1", "64:ff9b::a9fe:a9fe", "::", "ff02::1", "2002:a00:1::1"],
            ),
            ("fc00::/7", &["fd00::1"], &["fd00:ec2::254", "fe80::1"]),
            ("example.com", &[], &["1.1.1.1", "10.0.0.1", "127.0.0.1"]),
        ] {
            let rule = rule(text);
            for address in permitted {
                assert!(rule.permits_address(address.parse().unwrap()), "{text} should permit {address}");
            }
            for address in refused {
                assert!(!rule.permits_address(address.parse().unwrap()), "{text} should not permit {address}");
            }
        }
    }

    #[test]
    fn a_deny_rule_sees_through_wrappings() {
        for address in ["8.8.8.8", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1", "::8.8.8.8"] {
            assert!(rule("8.8.8.0/24").touches_address(address.parse().unwrap()), "{address}");
        }
        assert!(!rule("8.8.8.0/24").touches_address("8.8.4.4".parse().unwrap()));
    }

    #[test]
    fn no_port_means_every_port() {
        let included = |text: &str, port| rule(text).ports().include(port);
        for text in ["a.example", "*.a.example", "203.0.113.5", "10.0.0.0/8", "2001:db8::1", "a.example:*", "[2001:db8::/32]:*"] {
            assert!([1, 22, 80, 443, 65535].iter().all(|port| included(text, *port)), "{text}");
        }
        for text in ["a.example:443", "*.a.example:443", "203.0.113.5:443", "10.0.0.0/8:443", "[2001:db8::1]:443"] {
            assert!(included(text, 443) && ![1, 80, 444, 65535].iter().any(|port| included(text, *port)), "{text}");
        }
        assert!(included("http://a.example/", 80) && !included("http://a.example/", 443));
        assert!(included("http://a.example:8080/", 8080) && !included("http://a.example:8080/", 80));
    }

    #[test]
    fn the_narrowest_rule_for_a_host() {
        for (host, port, text) in [
            ("a.example", 443, "a.example:443"),
            ("a.example", 22, "a.example:22"),
            ("10.0.0.5", 5432, "10.0.0.5:5432"),
            ("fd00::1", 53, "[fd00::1]:53"),
        ] {
            let host = host.parse::<Host>().unwrap();
            let narrow = Rule::for_host(&host, port);
            assert_eq!(narrow.to_string(), text);
            assert!(narrow.is_about(&host) && narrow.ports().include(port));
            assert_eq!(rule(text), narrow);
        }
        let nowhere = "0.0.0.0".parse().unwrap();
        assert!(!Rule::for_host(&Host::Address(nowhere), 80).permits_address(nowhere));
        let mapped = Host::Address("::ffff:10.0.0.5".parse().unwrap());
        assert_eq!(Rule::for_host(&mapped, 22).to_string(), "10.0.0.5:22");
    }
}
