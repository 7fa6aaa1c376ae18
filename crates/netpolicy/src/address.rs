//! What kind of place an address is, and where an address that wraps another one leads.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use crate::Network;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AddressClass {
    Public,
    Unspecified,
    Loopback,
    Private,
    LinkLocal,
    /// A service that tells a machine about itself and often hands out credentials.
    Metadata,
    /// Between a provider and its customers (RFC 6598).
    Shared,
    Multicast,
    Broadcast,
    Documentation,
    Benchmarking,
    Reserved,
}

impl AddressClass {
    #[must_use]
    pub fn is_public(self) -> bool {
        self == Self::Public
    }

    /// Whether a connection to one host can be meant at all. No rule permits what cannot.
    #[must_use]
    pub fn is_one_host(self) -> bool {
        !matches!(self, Self::Unspecified | Self::Multicast | Self::Broadcast)
    }
}

impl fmt::Display for AddressClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Public => "public",
            Self::Unspecified => "unspecified",
            Self::Loopback => "loopback",
            Self::Private => "private",
            Self::LinkLocal => "link-local",
            Self::Metadata => "metadata service",
            Self::Shared => "carrier-grade NAT",
            Self::Multicast => "multicast",
            Self::Broadcast => "broadcast",
            Self::Documentation => "documentation",
            Self::Benchmarking => "benchmarking",
            Self::Reserved => "reserved",
        })
    }
}

/// The kind of place `address` leads to. An address that wraps others is only public if each of them is.
#[must_use]
pub fn classify(address: IpAddr) -> AddressClass {
    // The smaller range stands first.
    if let Some((_, class)) = BLOCKS.iter().find(|(block, _)| block.contains(address)) {
        return *class;
    }
    let IpAddr::V6(v6) = address else { return AddressClass::Public };
    let inner = leads_to(v6);
    if inner.iter().flatten().next().is_none() {
        // Only 2000::/3 has been given out.
        return if v6.segments()[0] >> 13 == 1 { AddressClass::Public } else { AddressClass::Reserved };
    }
    inner.into_iter().flatten().map(|v4| classify(v4.into())).find(|class| !class.is_public()).unwrap_or(AddressClass::Public)
}

#[must_use]
pub fn is_public(address: IpAddr) -> bool {
    classify(address).is_public()
}

/// The smallest range that is not public and holds the whole of `network`.
#[must_use]
pub fn special_range(network: &Network) -> Option<AddressClass> {
    BLOCKS.iter().find(|(block, _)| block.contains_network(network)).map(|(_, class)| *class)
}

/// The IPv4 addresses a packet to `address` can end up at: two for Teredo (server and client), one for other wrappings.
#[must_use]
pub fn leads_to(address: Ipv6Addr) -> [Option<Ipv4Addr>; 2] {
    let octets = address.octets();
    let at = |start: usize| Some(Ipv4Addr::new(octets[start], octets[start + 1], octets[start + 2], octets[start + 3]));
    let last = at(12);
    match address.segments() {
        // `::` and `::1` are addresses of their own.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => [None, None],
        // 6to4, then Teredo.
        [0x2002, ..] => [at(2), None],
        [0x2001, 0, ..] => [at(4), last.map(|client| Ipv4Addr::from_bits(!client.to_bits()))],
        // IPv4-compatible and IPv4-mapped, IPv4-translated, NAT64, ISATAP.
        [0, 0, 0, 0, 0, 0 | 0xffff, _, _]
        | [0, 0, 0, 0, 0xffff, 0, _, _]
        | [0x64, 0xff9b, 0, 0, 0, 0, _, _]
        | [_, _, _, _, 0 | 0x0200, 0x5efe, _, _] => [last, None],
        _ => [None, None],
    }
}

const BLOCKS: [(Network, AddressClass); 43] = {
    use AddressClass as Class;
    [
        // EC2, GCE, Azure and most others; then containers on EC2, pods on EC2, Alibaba, Oracle, Azure's wire server, Scaleway, Tencent.
        (Network::v4([169, 254, 169, 254], 32), Class::Metadata),
        (Network::v4([169, 254, 170, 2], 32), Class::Metadata),
        (Network::v4([169, 254, 170, 23], 32), Class::Metadata),
        (Network::v4([100, 100, 100, 200], 32), Class::Metadata),
        (Network::v4([192, 0, 0, 192], 32), Class::Metadata),
        (Network::v4([168, 63, 129, 16], 32), Class::Metadata),
        (Network::v4([169, 254, 42, 42], 32), Class::Metadata),
        (Network::v4([169, 254, 0, 23], 32), Class::Metadata),
        (Network::v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254], 128), Class::Metadata),
        (Network::v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x23], 128), Class::Metadata),
        (Network::v6([0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254], 128), Class::Metadata),
        (Network::v6([0xfd00, 0x42, 0, 0, 0, 0, 0, 0x42], 128), Class::Metadata),
        (Network::v4([0, 0, 0, 0], 32), Class::Unspecified),
        (Network::v4([255, 255, 255, 255], 32), Class::Broadcast),
        (Network::v4([0, 0, 0, 0], 8), Class::Reserved),
        (Network::v4([10, 0, 0, 0], 8), Class::Private),
        (Network::v4([100, 64, 0, 0], 10), Class::Shared),
        (Network::v4([127, 0, 0, 0], 8), Class::Loopback),
        (Network::v4([169, 254, 0, 0], 16), Class::LinkLocal),
        (Network::v4([172, 16, 0, 0], 12), Class::Private),
        (Network::v4([192, 0, 0, 0], 24), Class::Reserved),
        (Network::v4([192, 0, 2, 0], 24), Class::Documentation),
        (Network::v4([192, 88, 99, 0], 24), Class::Reserved),
        (Network::v4([192, 168, 0, 0], 16), Class::Private),
        (Network::v4([198, 18, 0, 0], 15), Class::Benchmarking),
        (Network::v4([198, 51, 100, 0], 24), Class::Documentation),
        (Network::v4([203, 0, 113, 0], 24), Class::Documentation),
        (Network::v4([224, 0, 0, 0], 4), Class::Multicast),
        (Network::v4([240, 0, 0, 0], 4), Class::Reserved),
        (Network::v6([0, 0, 0, 0, 0, 0, 0, 0], 128), Class::Unspecified),
        (Network::v6([0, 0, 0, 0, 0, 0, 0, 1], 128), Class::Loopback),
        // NAT64 prefixes of a site's own choosing: where they lead is the site's secret.
        (Network::v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48), Class::Private),
        (Network::v6([0x2001, 2, 0, 0, 0, 0, 0, 0], 48), Class::Benchmarking),
        (Network::v6([0x2001, 0x10, 0, 0, 0, 0, 0, 0], 28), Class::Reserved),
        (Network::v6([0x2001, 0x20, 0, 0, 0, 0, 0, 0], 28), Class::Reserved),
        (Network::v6([0x2001, 0x30, 0, 0, 0, 0, 0, 0], 28), Class::Reserved),
        (Network::v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), Class::Documentation),
        (Network::v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), Class::Documentation),
        (Network::v6([0x100, 0, 0, 0, 0, 0, 0, 0], 64), Class::Reserved),
        (Network::v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7), Class::Private),
        (Network::v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10), Class::LinkLocal),
        (Network::v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10), Class::Private),
        (Network::v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8), Class::Multicast),
    ]
};

#[cfg(test)]
mod tests {
    use super::*;
    use AddressClass::{
        Benchmarking, Broadcast, Documentation, LinkLocal, Loopback, Metadata, Multicast, Private, Public, Reserved, Shared,
        Unspecified,
    };

    #[test]
    fn addresses_and_what_they_are() {
        for (text, expected) in [
            ("1.1.1.1", Public),
            ("9.255.255.255", Public),
            ("11.0.0.0", Public),
            ("100.63.255.255", Public),
            ("100.128.0.0", Public),
            ("172.15.255.255", Public),
            ("172.32.0.0", Public),
            ("192.167.255.255", Public),
            ("198.17.255.255", Public),
            ("198.20.0.0", Public),
            ("223.255.255.255", Public),
            ("0.0.0.0", Unspecified),
            ("0.1.2.3", Reserved),
            ("127.0.0.1", Loopback),
            ("127.255.255.254", Loopback),
            ("10.1.2.3", Private),
            ("172.16.0.1", Private),
            ("172.31.255.255", Private),
            ("192.168.1.1", Private),
            ("169.254.1.1", LinkLocal),
            ("169.254.169.254", Metadata),
            ("169.254.170.2", Metadata),
            ("100.100.100.200", Metadata),
            ("168.63.129.16", Metadata),
            ("192.0.0.192", Metadata),
            ("100.64.0.1", Shared),
            ("100.127.255.255", Shared),
            ("224.0.0.1", Multicast),
            ("239.255.255.255", Multicast),
            ("255.255.255.255", Broadcast),
            ("240.0.0.1", Reserved),
            ("192.0.0.1", Reserved),
            ("192.0.2.1", Documentation),
            ("198.51.100.1", Documentation),
            ("203.0.113.1", Documentation),
            ("198.18.0.1", Benchmarking),
            ("198.19.255.255", Benchmarking),
            ("2606:4700:4700::1111", Public),
            ("::", Unspecified),
            ("::1", Loopback),
            ("fc00::1", Private),
            ("fdff::1", Private),
            ("fec0::1", Private),
            ("fe80::1", LinkLocal),
            ("fd00:ec2::254", Metadata),
            ("fd20:ce::254", Metadata),
            ("ff02::1", Multicast),
            ("2001:db8::1", Documentation),
            ("3fff::1", Documentation),
            ("2001:2::1", Benchmarking),
            ("2001:20::1", Reserved),
            ("100::1", Reserved),
            ("4000::1", Reserved),
            ("1::1", Reserved),
            ("5f00::1", Reserved),
        ] {
            assert_eq!(classify(text.parse().unwrap()), expected, "{text}");
        }
    }

    #[test]
    fn wrapped_addresses_are_what_they_lead_to() {
        for (what, text, expected) in [
            ("mapped metadata", "::ffff:169.254.169.254", Metadata),
            ("mapped loopback in hex", "::ffff:7f00:1", Loopback),
            ("mapped public", "::ffff:1.1.1.1", Public),
            ("mapped unspecified", "::ffff:0.0.0.0", Unspecified),
            ("compatible loopback", "::127.0.0.1", Loopback),
            ("compatible private", "::10.0.0.1", Private),
            ("compatible zero network", "::2", Reserved),
            ("translated private", "::ffff:0:10.0.0.1", Private),
            ("NAT64 metadata", "64:ff9b::a9fe:a9fe", Metadata),
            ("NAT64 public", "64:ff9b::1.1.1.1", Public),
            ("NAT64 with bits in between", "64:ff9b::1:a9fe:a9fe", Reserved),
            ("local NAT64", "64:ff9b:1::1.1.1.1", Private),
            ("6to4 private", "2002:a00:1::1", Private),
            ("6to4 metadata", "2002:a9fe:a9fe::", Metadata),
            ("6to4 public", "2002:101:101::1", Public),
            // Teredo: server 65.54.227.120; the client's bits are inverted.
            ("Teredo to a private client", "2001:0:4136:e378:8000:63bf:f5ff:fffe", Private),
            ("Teredo to a public client", "2001:0:4136:e378:8000:63bf:fefe:fefe", Public),
            ("Teredo through a private server", "2001:0:a00:1:8000:63bf:fefe:fefe", Private),
            ("ISATAP to metadata", "2606:4700::200:5efe:a9fe:a9fe", Metadata),
            ("ISATAP on a private network", "fd00::5efe:101:101", Private),
        ] {
            assert_eq!(classify(text.parse().unwrap()), expected, "{what}");
            assert_eq!(is_public(text.parse().unwrap()), expected == Public, "{what}");
        }
    }

    #[test]
    fn the_table_has_no_bits_after_a_prefix_and_puts_the_smaller_range_first() {
        for (index, (network, _)) in BLOCKS.iter().enumerate() {
            assert_eq!(Network::new(network.base(), network.prefix()), Ok(*network));
            for (later, _) in &BLOCKS[index + 1..] {
                assert!(!network.contains_network(later), "{network} hides {later}");
            }
        }
    }
}
