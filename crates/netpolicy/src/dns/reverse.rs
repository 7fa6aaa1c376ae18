//! Addresses written as names, as in questions for the name of an address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::HostName;

/// Whether the name lies where addresses are written as names, be it one or not.
#[must_use]
pub fn is_reverse(name: &HostName) -> bool {
    ["in-addr.arpa", "ip6.arpa"]
        .iter()
        .any(|zone| name.as_str().strip_suffix(zone).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}

/// The address that `1.0.18.198.in-addr.arpa` or the like stands for.
#[must_use]
pub fn address_of(name: &HostName) -> Option<IpAddr> {
    let name = name.as_str();
    if let Some(labels) = name.strip_suffix(".in-addr.arpa") {
        let octets = labels.rsplit('.').map(decimal).collect::<Option<Vec<_>>>()?;
        return <[u8; 4]>::try_from(octets).ok().map(|octets| Ipv4Addr::from(octets).into());
    }
    let nibbles = name.strip_suffix(".ip6.arpa")?.rsplit('.').map(hexadecimal).collect::<Option<Vec<_>>>()?;
    if nibbles.len() != 32 {
        return None;
    }
    let bits = nibbles.into_iter().fold(0, |bits, nibble| bits << 4 | u128::from(nibble));
    Some(Ipv6Addr::from_bits(bits).into())
}

fn decimal(label: &str) -> Option<u8> {
    let is_plain = label == "0" || !label.starts_with('0') && label.bytes().all(|byte| byte.is_ascii_digit());
    label.parse().ok().filter(|_| is_plain)
}

fn hexadecimal(label: &str) -> Option<u8> {
    match label.as_bytes() {
        [digit] => char::from(*digit).to_digit(16).and_then(|value| u8::try_from(value).ok()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> HostName {
        text.parse().unwrap()
    }

    #[test]
    fn addresses_are_found_in_names() {
        let nibbles = "1.0.0.0.0.0.0.0.0.0.0.0.0.0.0.0.1.0.0.0.a.9.8.7.6.5.4.3.2.1.d.f.ip6.arpa";
        for (text, address) in [
            ("1.0.18.198.in-addr.arpa", "198.18.0.1"),
            ("1.0.0.127.IN-ADDR.arpa.", "127.0.0.1"),
            (nibbles, "fd12:3456:789a:1::1"),
            (&nibbles.to_uppercase(), "fd12:3456:789a:1::1"),
        ] {
            assert_eq!(address_of(&name(text)), Some(address.parse().unwrap()), "{text}");
            assert!(is_reverse(&name(text)), "{text}");
        }
    }

    #[test]
    fn other_names_are_no_addresses() {
        for text in [
            "example.com",
            "in-addr.arpa",
            "ip6.arpa",
            "0.18.198.in-addr.arpa",
            "1.1.0.18.198.in-addr.arpa",
            "01.0.18.198.in-addr.arpa",
            "256.0.18.198.in-addr.arpa",
            "a.0.18.198.in-addr.arpa",
            "1.0.18.198.in-addr.arpa.example",
            "1.0.18.198.xin-addr.arpa",
            "0.0.0.ip6.arpa",
            &format!("{}ip6.arpa", "0.".repeat(33)),
            &format!("{}ip6.arpa", "g.".repeat(32)),
            &format!("{}ip6.arpa", "00.".repeat(32)),
        ] {
            assert_eq!(address_of(&name(text)), None, "{text}");
        }
        assert!(is_reverse(&name("in-addr.arpa")) && is_reverse(&name("a.ip6.arpa")));
        assert!(!is_reverse(&name("xin-addr.arpa")) && !is_reverse(&name("arpa")) && !is_reverse(&name("ip6.arpa.example")));
    }
}
