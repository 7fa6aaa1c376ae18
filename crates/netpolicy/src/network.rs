//! A range of addresses in CIDR form.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// An address and how many of its leading bits count; the other bits are zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Network {
    base: IpAddr,
    prefix: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NetworkError {
    #[error("'{text}' is not a network; write one like 192.0.2.0/24 or 2001:db8::/32")]
    Malformed { text: String },
    #[error("a network of {base} has a prefix of at most {longest} bits")]
    PrefixTooLong { base: IpAddr, longest: u8 },
    #[error("{base}/{prefix} has bits after its prefix; write {meant}")]
    BitsAfterPrefix { base: IpAddr, prefix: u8, meant: Network },
    #[error("an IPv4 network is written in IPv4 form")]
    Mapped,
}

impl Network {
    /// # Errors
    /// If the prefix is longer than the address, or bits after it are set.
    pub fn new(base: IpAddr, prefix: u8) -> Result<Self, NetworkError> {
        let longest = longest_prefix(base);
        if prefix > longest {
            return Err(NetworkError::PrefixTooLong { base, longest });
        }
        if let IpAddr::V6(v6) = base
            && v6.to_ipv4_mapped().is_some()
        {
            return Err(NetworkError::Mapped);
        }
        let meant = Self { base: masked(base, prefix), prefix };
        if meant.base == base { Ok(meant) } else { Err(NetworkError::BitsAfterPrefix { base, prefix, meant }) }
    }

    /// For tables written in this crate: bits after the prefix are the author's mistake and match nothing.
    pub(crate) const fn v4(octets: [u8; 4], prefix: u8) -> Self {
        Self { base: IpAddr::V4(Ipv4Addr::new(octets[0], octets[1], octets[2], octets[3])), prefix }
    }

    pub(crate) const fn v6(groups: [u16; 8], prefix: u8) -> Self {
        let base = Ipv6Addr::new(groups[0], groups[1], groups[2], groups[3], groups[4], groups[5], groups[6], groups[7]);
        Self { base: IpAddr::V6(base), prefix }
    }

    #[must_use]
    pub fn base(&self) -> IpAddr {
        self.base
    }

    #[must_use]
    pub fn prefix(&self) -> u8 {
        self.prefix
    }

    #[must_use]
    pub fn is_one_address(&self) -> bool {
        self.prefix == longest_prefix(self.base)
    }

    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.base.is_ipv4() == address.is_ipv4() && masked(address, self.prefix) == self.base
    }

    #[must_use]
    pub fn contains_network(&self, other: &Self) -> bool {
        self.prefix <= other.prefix && self.contains(other.base)
    }
}

fn longest_prefix(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

fn masked(address: IpAddr, prefix: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => Ipv4Addr::from_bits(v4.to_bits() & u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0)).into(),
        IpAddr::V6(v6) => Ipv6Addr::from_bits(v6.to_bits() & u128::MAX.checked_shl(128 - u32::from(prefix)).unwrap_or(0)).into(),
    }
}

impl FromStr for Network {
    type Err = NetworkError;

    fn from_str(text: &str) -> Result<Self, NetworkError> {
        let malformed = || NetworkError::Malformed { text: text.escape_debug().to_string() };
        let (base, prefix) = text.split_once('/').ok_or_else(malformed)?;
        let plain = (1..=3).contains(&prefix.len()) && prefix.bytes().all(|byte| byte.is_ascii_digit());
        if !plain || (prefix.len() > 1 && prefix.starts_with('0')) {
            return Err(malformed());
        }
        let base = base.parse().map_err(|_| malformed())?;
        Self::new(base, prefix.parse().map_err(|_| malformed())?)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.base, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> Network {
        text.parse().unwrap()
    }

    #[test]
    fn a_network_contains_its_first_and_last_address_and_no_neighbour() {
        for (net, inside, outside) in [
            ("10.0.0.0/8", ["10.0.0.0", "10.255.255.255"], ["9.255.255.255", "11.0.0.0"]),
            ("192.0.2.7/32", ["192.0.2.7", "192.0.2.7"], ["192.0.2.6", "192.0.2.8"]),
            ("fc00::/7", ["fc00::", "fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"], ["fbff::", "fe00::"]),
            ("2001:db8::1/128", ["2001:db8::1", "2001:db8::1"], ["2001:db8::", "2001:db8::2"]),
            ("0.0.0.0/0", ["0.0.0.0", "255.255.255.255"], ["::", "::ffff:1.2.3.4"]),
            ("::/0", ["::", "ffff::"], ["0.0.0.0", "1.2.3.4"]),
        ] {
            assert!(inside.iter().all(|address| network(net).contains(address.parse().unwrap())), "{net}");
            assert!(!outside.iter().any(|address| network(net).contains(address.parse().unwrap())), "{net}");
            assert_eq!(network(net).to_string(), net);
        }
    }

    #[test]
    fn a_network_contains_smaller_ones_only() {
        assert!(network("10.0.0.0/8").contains_network(&network("10.1.0.0/16")));
        assert!(!network("10.1.0.0/16").contains_network(&network("10.0.0.0/8")));
    }

    #[test]
    fn hostile_networks_are_refused() {
        for text in [
            "",
            "/",
            "10.0.0.0",
            "10.0.0.0/",
            "10.0.0.0/33",
            "10.0.0.0/+8",
            "10.0.0.0/08",
            "10.0.0.0/-1",
            "10.0.0.0/256",
            "10/8",
            "10.0.0.1/8",
            "0x0a.0.0.0/8",
            "::/129",
            "::1/64",
            "::ffff:10.0.0.0/104",
            "10.0.0.0/8/8",
            "example.com/8",
            "1.2.3.4/ 8",
        ] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
        assert_eq!(
            "10.0.0.1/8".parse::<Network>().unwrap_err().to_string(),
            "10.0.0.1/8 has bits after its prefix; write 10.0.0.0/8"
        );
    }
}
