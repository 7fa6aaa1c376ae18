//! Decisions as the rest of the supervisor passes them on: words for the log and for the client.

use std::net::IpAddr;

use whatif_netpolicy::policy::Reason;
use whatif_netpolicy::{AddressClass, Decision, Host, Policy, Request, address};

/// Why something is not allowed.
#[derive(Clone, Debug)]
pub(crate) struct Denial {
    pub(crate) because: String,
    /// The flag that would allow it.
    pub(crate) hint: Option<String>,
    /// No rule speaks of it, so a person may be asked.
    pub(crate) may_ask: bool,
}

impl Denial {
    /// One that no rule can change.
    pub(crate) fn plain(because: impl Into<String>) -> Self {
        Self { because: because.into(), hint: None, may_ask: false }
    }
}

/// The rule that allows it, in words, or why not.
pub(crate) fn judge(policy: &Policy, request: &Request<'_>) -> Result<String, Denial> {
    match policy.decide(request) {
        Decision::Allow { because } => Ok(because.to_string()),
        Decision::Deny { because, hint } => {
            let may_ask = matches!(because, Reason::NoRule { .. }) && hint.is_some();
            Err(Denial { because: because.to_string(), hint, may_ask })
        }
    }
}

/// The host's own loopback is reached by `--reach` alone, whatever rules say and however the address is wrapped.
pub(crate) fn check_not_loopback(address: IpAddr) -> Result<(), Denial> {
    let leads = match address.to_canonical() {
        IpAddr::V4(_) => [None, None],
        IpAddr::V6(v6) => address::leads_to(v6),
    };
    let all = [Some(address.to_canonical()), leads[0].map(IpAddr::V4), leads[1].map(IpAddr::V4)];
    let is_here = |address: IpAddr| matches!(address::classify(address), AddressClass::Loopback | AddressClass::Unspecified);
    if all.into_iter().flatten().any(is_here) {
        return Err(Denial::plain(format!(
            "{address} is this machine itself; a service here is reached with --reach localhost:PORT"
        )));
    }
    Ok(())
}

/// `host:port`, with brackets where they belong.
pub(crate) fn with_port(host: &Host, port: u16) -> String {
    whatif_netpolicy::Authority { host: host.clone(), port: Some(port) }.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_is_found_in_every_wrapping() {
        for text in ["127.0.0.1", "127.9.9.9", "0.0.0.0", "::", "::1", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::"] {
            assert!(check_not_loopback(text.parse().unwrap()).is_err(), "{text}");
        }
        for text in ["10.0.0.1", "192.0.2.1", "2001:db8::1", "64:ff9b::c000:201"] {
            assert!(check_not_loopback(text.parse().unwrap()).is_ok(), "{text}");
        }
    }
}
