//! `no_proxy`: hosts that are reached without one.

use std::net::IpAddr;

use whatif_netpolicy::{Host, Network};

#[derive(Clone, Debug, Default)]
pub(super) struct Exceptions(Vec<Exception>);

#[derive(Clone, Debug)]
struct Exception {
    what: What,
    port: Option<u16>,
}

#[derive(Clone, Debug)]
enum What {
    Everything,
    /// That name and all below it.
    Domain(String),
    Address(IpAddr),
    Network(Network),
}

impl Exceptions {
    pub(super) fn new(text: &str) -> Self {
        Self(text.split([',', ' ']).map(str::trim).filter(|entry| !entry.is_empty()).map(Exception::parse).collect())
    }

    pub(super) fn contain(&self, host: &Host, port: u16) -> bool {
        self.0.iter().any(|exception| exception.port.is_none_or(|only| only == port) && exception.what.is_about(host))
    }
}

impl Exception {
    fn parse(entry: &str) -> Self {
        if entry == "*" {
            return Self { what: What::Everything, port: None };
        }
        if let Ok(network) = entry.parse() {
            return Self { what: What::Network(network), port: None };
        }
        let bare = entry.trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = bare.parse::<IpAddr>() {
            return Self { what: What::Address(address.to_canonical()), port: None };
        }
        let (name, port) = match entry.rsplit_once(':') {
            Some((name, port)) => (name, port.parse().ok()),
            None => (entry, None),
        };
        let name = name.trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = name.parse::<IpAddr>() {
            return Self { what: What::Address(address.to_canonical()), port };
        }
        let domain = name.trim_start_matches("*.").trim_start_matches('.').trim_end_matches('.');
        Self { what: What::Domain(domain.to_ascii_lowercase()), port }
    }
}

impl What {
    fn is_about(&self, host: &Host) -> bool {
        match (self, host) {
            (Self::Everything, _) => true,
            (Self::Domain(domain), Host::Name(name)) => {
                let rest = name.as_str().strip_suffix(domain.as_str());
                !domain.is_empty() && rest.is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
            }
            (Self::Address(only), Host::Address(address)) => *only == address.to_canonical(),
            (Self::Network(network), Host::Address(address)) => network.contains(address.to_canonical()),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exceptions_are_names_suffixes_addresses_and_networks() {
        let exceptions = Exceptions::new("localhost, .example.com,*.example.org,10.0.0.0/8,192.0.2.1:8080,[2001:db8::1]");
        let has = |text: &str, port: u16| exceptions.contain(&text.parse().unwrap(), port);
        assert!(has("example.com", 1) && has("a.example.com", 1) && has("b.example.org", 1) && has("localhost", 80));
        assert!(has("10.1.2.3", 1) && has("192.0.2.1", 8080) && has("2001:db8::1", 1));
        assert!(!has("notexample.com", 1) && !has("192.0.2.1", 80) && !has("11.0.0.1", 1) && !has("com", 1));
        assert!(Exceptions::new("*").contain(&"any.example".parse().unwrap(), 1));
        assert!(!Exceptions::new("").contain(&"any.example".parse().unwrap(), 1));
    }
}
