//! What is allowed, and why not.
//!
//! A connection passes several questions, each asked as soon as more is known about it; it has to pass all of them. A
//! connection to a name has to say the same name in its first bytes, or one allowed name would be a door to its neighbours on
//! the same server. A connection to an address is allowed by a rule for that address alone: whoever allows an address allows
//! what is there, whatever it is called.

mod reason;

use std::net::IpAddr;

pub use reason::Reason;

use crate::address;
use crate::http::{Body, Head, Upgrade};
use crate::rule::Ports;
use crate::tls::ClientHello;
use crate::{AddressClass, Host, HostName, Rule};

/// Where a TLS hello without a name is refused: on one address and these ports live many sites, and only the name tells which.
const WEB_PORTS: [u16; 2] = [80, 443];

/// Allows what a rule allows and no deny rule denies. The default allows nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    allow: Vec<Rule>,
    deny: Vec<Rule>,
    encrypted_hellos: EncryptedHellos,
}

/// What to do with a TLS hello that may hide another name inside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EncryptedHellos {
    /// A server for many sites lets the hidden name choose among them, so the visible one proves nothing.
    #[default]
    Refuse,
    /// Browsers send meaningless ones all the time. With this, such a browser works, and the visible name is believed.
    BelieveOuterName,
}

#[derive(Clone, Copy, Debug)]
pub enum Request<'a> {
    /// A name is asked for, on no port yet.
    Resolve { name: &'a HostName },
    /// A connection arrived. Its first bytes are still to be judged.
    Connect { target: &'a Host, port: u16 },
    /// The connection begins with a TLS hello.
    Tls { target: &'a Host, port: u16, hello: &'a ClientHello },
    /// The connection carries plain HTTP; asked anew for each request on it.
    Http { target: &'a Host, port: u16, head: &'a Head },
    /// The connection begins with something else, or the server is to speak first.
    Opaque { target: &'a Host, port: u16 },
    /// The name was resolved outside and this address is about to be dialled.
    Resolved { name: &'a HostName, address: IpAddr, port: u16 },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision<'p> {
    Allow {
        because: &'p Rule,
    },
    Deny {
        because: Reason,
        /// The flag that would allow it, where one would and advising it is sound.
        hint: Option<String>,
    },
}

impl Decision<'_> {
    #[must_use]
    pub fn is_allowed(&self) -> bool {
        matches!(self, Self::Allow { .. })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' cannot be denied: the same path can be written in many ways; deny the host")]
pub struct DenyByPath(Rule);

impl Policy {
    /// # Errors
    /// If a deny rule is about paths or methods.
    pub fn new(allow: Vec<Rule>, deny: Vec<Rule>) -> Result<Self, DenyByPath> {
        match deny.iter().find(|rule| rule.http().is_some()) {
            Some(rule) => Err(DenyByPath(rule.clone())),
            None => Ok(Self { allow, deny, encrypted_hellos: EncryptedHellos::default() }),
        }
    }

    #[must_use]
    pub fn with_encrypted_hellos(self, encrypted_hellos: EncryptedHellos) -> Self {
        Self { encrypted_hellos, ..self }
    }

    #[must_use]
    pub fn decide(&self, request: &Request<'_>) -> Decision<'_> {
        let outcome = match *request {
            Request::Resolve { name } => self.resolve(name),
            Request::Connect { target, port } => self.connect(target, port),
            Request::Tls { target, port, hello } => self.tls(target, port, hello),
            Request::Http { target, port, head } => self.http(target, port, head),
            Request::Opaque { target, port } => self.opaque(target, port),
            Request::Resolved { name, address, port } => self.resolved(name, address, port),
        };
        match outcome {
            Ok(because) => Decision::Allow { because },
            Err(because) => Decision::Deny { hint: because.hint(), because },
        }
    }

    fn resolve(&self, name: &HostName) -> Result<&Rule, Reason> {
        if let Some(rule) = self.deny.iter().find(|rule| rule.names(name) && rule.ports() == Ports::Any) {
            return Err(Reason::DeniedBy { rule: rule.clone() });
        }
        let found = self.allow.iter().find(|rule| rule.names(name));
        found.ok_or_else(|| Reason::NoRule { host: Host::Name(name.clone()), port: None })
    }

    fn connect(&self, target: &Host, port: u16) -> Result<&Rule, Reason> {
        self.check_denied(target, port)?;
        let found = self.allow.iter().find(|rule| rule.is_about(target) && rule.ports().include(port));
        found.ok_or_else(|| Reason::NoRule { host: target.clone(), port: Some(port) })
    }

    fn tls(&self, target: &Host, port: u16, hello: &ClientHello) -> Result<&Rule, Reason> {
        let rule = self.any_traffic(target, port)?;
        if let Some(sni) = &hello.sni {
            self.check_denied(&Host::Name(sni.clone()), port)?;
        }
        let Host::Name(name) = target else { return Ok(rule) };
        if hello.has_ech && self.encrypted_hellos == EncryptedHellos::Refuse {
            return Err(Reason::EncryptedHello { name: name.clone() });
        }
        match &hello.sni {
            Some(sni) if sni != name => Err(Reason::SniDiffers { asked: name.clone(), sni: sni.clone() }),
            None if WEB_PORTS.contains(&port) => Err(Reason::NoSni { name: name.clone() }),
            _ => Ok(rule),
        }
    }

    fn http(&self, target: &Host, port: u16, head: &Head) -> Result<&Rule, Reason> {
        self.check_denied(target, port)?;
        if let Some(host) = &head.host {
            self.check_denied(&host.host, port)?;
        }
        let host_differs = check_host(target, port, head);
        if let Host::Name(name) = target {
            host_differs.clone()?;
            check_stays_http(name, port, head)?;
        }
        let matching = || self.allow.iter().filter(|rule| rule.is_about(target) && rule.ports().include(port));
        if let Some(rule) = matching().find(|rule| rule.http().is_none()) {
            return Ok(rule);
        }
        if matching().next().is_none() {
            return Err(Reason::NoRule { host: target.clone(), port: Some(port) });
        }
        // Only rules for plain HTTP are left, and these hold for the host they name.
        host_differs?;
        let path = head.target.path().unwrap_or("/");
        let stays_http = head.upgrade.is_none() && head.body != Body::Tunnel;
        let found = matching().find(|rule| stays_http && rule.http().is_some_and(|scope| scope.permits(&head.method, path)));
        found.ok_or_else(|| Reason::NoHttpRule { host: target.clone(), port, method: head.method.clone(), path: path.to_owned() })
    }

    fn opaque(&self, target: &Host, port: u16) -> Result<&Rule, Reason> {
        let rule = self.any_traffic(target, port)?;
        match (target, port) {
            (Host::Name(name), 443) => Err(Reason::NotTls { name: name.clone() }),
            (Host::Name(name), 80) => Err(Reason::NotHttp { name: name.clone() }),
            _ => Ok(rule),
        }
    }

    fn resolved(&self, name: &HostName, address: IpAddr, port: u16) -> Result<&Rule, Reason> {
        let rule = self.connect(&Host::Name(name.clone()), port)?;
        self.check_denied(&Host::Address(address), port)?;
        let class = address::classify(address);
        let is_named =
            || self.allow.iter().any(|rule| rule.http().is_none() && rule.permits_address(address) && rule.ports().include(port));
        // Documentation ranges lead nowhere in reality, and are the outside of many a test network.
        let is_harmless = class.is_public() || class == AddressClass::Documentation;
        if is_harmless || is_named() { Ok(rule) } else { Err(Reason::NotPublic { name: name.clone(), address, class, port }) }
    }

    /// A rule for traffic of any kind, not only for plain HTTP.
    fn any_traffic(&self, target: &Host, port: u16) -> Result<&Rule, Reason> {
        self.check_denied(target, port)?;
        let found = self.allow.iter().find(|rule| rule.http().is_none() && rule.is_about(target) && rule.ports().include(port));
        found.ok_or_else(|| Reason::NoRule { host: target.clone(), port: Some(port) })
    }

    fn check_denied(&self, host: &Host, port: u16) -> Result<(), Reason> {
        let is_about = |rule: &Rule| match host {
            Host::Name(name) => rule.names(name),
            Host::Address(address) => rule.touches_address(*address),
        };
        match self.deny.iter().find(|rule| rule.ports().include(port) && is_about(rule)) {
            Some(rule) => Err(Reason::DeniedBy { rule: rule.clone() }),
            None => Ok(()),
        }
    }
}

/// A `Host` field without a port is common where the port is not 80, and changes nothing about who is asked.
fn check_host(target: &Host, port: u16, head: &Head) -> Result<(), Reason> {
    let Some(host) = &head.host else { return Err(Reason::NoHost { host: target.clone() }) };
    let named_ports = [host.port, head.target.authority().and_then(|authority| authority.port)];
    if host.host == *target && named_ports.into_iter().flatten().all(|given| given == port) {
        return Ok(());
    }
    Err(Reason::HostDiffers { asked: target.clone(), port, host: host.clone() })
}

/// Requests are judged one by one only as long as they can be told apart.
fn check_stays_http(name: &HostName, port: u16, head: &Head) -> Result<(), Reason> {
    match head {
        _ if port == 443 => Err(Reason::NotTls { name: name.clone() }),
        Head { body: Body::Tunnel, .. } => Err(Reason::Tunnel { name: name.clone() }),
        Head { upgrade: Some(Upgrade::Other), .. } => Err(Reason::Upgrade { name: name.clone() }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests;
