//! Why something is denied, and what would allow it.

use std::net::IpAddr;

use crate::authority::Authority;
use crate::{AddressClass, Host, HostName, Rule, address};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    #[error("{}", no_rule(.host, *.port))]
    NoRule { host: Host, port: Option<u16> },
    #[error("no rule allows {method} {path} at {}", with_port(.host, Some(*.port)))]
    NoHttpRule { host: Host, port: u16, method: String, path: String },
    #[error("the rule '{rule}' denies it")]
    DeniedBy { rule: Rule },
    #[error("{name} leads to {address}, a {class} address")]
    NotPublic { name: HostName, address: IpAddr, class: AddressClass, port: u16 },
    #[error("the TLS hello for {name} names no server")]
    NoSni { name: HostName },
    #[error("the connection is for {asked}, its TLS hello for {sni}")]
    SniDiffers { asked: HostName, sni: HostName },
    #[error("the TLS hello for {name} may hide another name")]
    EncryptedHello { name: HostName },
    #[error("the connection to {name} on port 443 is not TLS")]
    NotTls { name: HostName },
    #[error("the connection to {name} on port 80 is not HTTP/1")]
    NotHttp { name: HostName },
    #[error("the request for {host} names no host")]
    NoHost { host: Host },
    #[error("the connection is for {}, the request on it for {host}", with_port(.asked, Some(*.port)))]
    HostDiffers { asked: Host, port: u16, host: Authority },
    #[error("the request asks {name} for a tunnel")]
    Tunnel { name: HostName },
    #[error("the request asks {name} to change the protocol")]
    Upgrade { name: HostName },
}

impl Reason {
    /// The flag that would allow it. None where a client contradicts itself, since no rule repairs that, and none that opens
    /// the way to a metadata service: a person who wants that knows its address.
    pub(super) fn hint(&self) -> Option<String> {
        let rule = match self {
            Self::NoRule { host, port } => advisable(host, port.unwrap_or(443)),
            Self::NoHttpRule { host, port, method, path } => {
                let authority = Authority { host: host.clone(), port: Some(*port) };
                let narrow = format!("http+{}://{authority}{path}", method.to_ascii_lowercase()).parse().ok();
                narrow.or_else(|| advisable(host, *port))
            }
            Self::NotPublic { address, port, .. } => advisable(&Host::Address(*address), *port),
            _ => None,
        };
        rule.map(|rule| format!("--net allow={rule}"))
    }
}

fn advisable(host: &Host, port: u16) -> Option<Rule> {
    // Nor the way to the sandbox's own loopback, for which no rule is needed.
    let is_own = match host {
        Host::Address(address) => matches!(address::classify(*address), AddressClass::Metadata | AddressClass::Loopback),
        Host::Name(name) => name.as_str() == "localhost" || name.as_str().ends_with(".localhost"),
    };
    if is_own {
        return None;
    }
    // Some addresses cannot stand in a rule.
    Rule::for_host(host, port).to_string().parse().ok()
}

fn no_rule(host: &Host, port: Option<u16>) -> String {
    let place = with_port(host, port);
    match host {
        Host::Address(address) if address::classify(*address) == AddressClass::Metadata => {
            format!("no rule names {place}, a metadata service, which hands out credentials")
        }
        _ => format!("no rule allows {place}"),
    }
}

fn with_port(host: &Host, port: Option<u16>) -> String {
    Authority { host: host.clone(), port }.to_string()
}
