//! `/etc/resolv.conf`: which name servers the host asks, and how patiently.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, SocketAddrV6};
use std::time::Duration;

use whatif_netpolicy::HostName;

const PORT: u16 = 53;
/// As many as the C library takes.
const MOST_SERVERS: usize = 3;
const MOST_DOMAINS: usize = 6;
/// The C library waits 5 seconds unless told otherwise, and so do clients inside: with less, a second server can answer before
/// they have given up on a dead first one.
const USUAL_TIMEOUT: Duration = Duration::from_secs(3);
const LONGEST_TIMEOUT: u64 = 30;
const USUAL_ATTEMPTS: u32 = 2;
const MOST_ATTEMPTS: u32 = 5;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Servers {
    pub(super) addresses: Vec<SocketAddr>,
    pub(super) search: Vec<HostName>,
    pub(super) timeout: Duration,
    pub(super) attempts: u32,
    pub(super) transport: FirstTry,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FirstTry {
    Udp,
    Tcp,
}

/// Without a file, or servers in it: one on this machine.
impl Default for Servers {
    fn default() -> Self {
        Self {
            addresses: vec![(Ipv4Addr::LOCALHOST, PORT).into()],
            search: Vec::new(),
            timeout: USUAL_TIMEOUT,
            attempts: USUAL_ATTEMPTS,
            transport: FirstTry::Udp,
        }
    }
}

impl Servers {
    /// What is not understood is passed over, as everybody does. `interface_number` finds the number of an interface.
    pub(super) fn parse(text: &[u8], interface_number: impl Fn(&str) -> Option<u32>) -> Self {
        let mut servers = Self { addresses: Vec::new(), ..Self::default() };
        for line in text.split(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok()) {
            let line = line.split(['#', ';']).next().unwrap_or_default();
            let mut words = line.split_ascii_whitespace();
            match words.next() {
                Some("nameserver") if servers.addresses.len() < MOST_SERVERS => {
                    servers.addresses.extend(words.next().and_then(|word| server_address(word, &interface_number)));
                }
                // The last one holds.
                Some("search" | "domain") => {
                    servers.search = words.filter_map(|word| word.parse().ok()).take(MOST_DOMAINS).collect()
                }
                Some("options") => words.for_each(|word| servers.set_option(word)),
                _ => {}
            }
        }
        if servers.addresses.is_empty() {
            servers.addresses = Self::default().addresses;
        }
        servers
    }

    fn set_option(&mut self, word: &str) {
        match word.split_once(':') {
            Some(("timeout", number)) => {
                if let Ok(seconds) = number.parse::<u64>() {
                    self.timeout = Duration::from_secs(seconds.clamp(1, LONGEST_TIMEOUT));
                }
            }
            Some(("attempts", number)) => {
                if let Ok(attempts) = number.parse::<u32>() {
                    self.attempts = attempts.clamp(1, MOST_ATTEMPTS);
                }
            }
            None if word == "use-vc" => self.transport = FirstTry::Tcp,
            _ => {}
        }
    }
}

/// A link-local address says on which interface it is meant: `fe80::1%eth0`.
fn server_address(word: &str, interface_number: impl Fn(&str) -> Option<u32>) -> Option<SocketAddr> {
    match word.split_once('%') {
        None => word.parse::<IpAddr>().ok().map(|address| (address, PORT).into()),
        Some((address, scope)) => {
            let scope = scope.parse().ok().or_else(|| interface_number(scope))?;
            address.parse().ok().map(|address| SocketAddrV6::new(address, PORT, 0, scope).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Servers {
        Servers::parse(text.as_bytes(), |name| (name == "eth0").then_some(7))
    }

    #[test]
    fn servers_are_read_up_to_three() {
        let servers = parse(
            "# made by hand\nnameserver 192.0.2.1\nnameserver 2001:db8::1 ; two\n\tnameserver\t192.0.2.2\r\nnameserver 192.0.2.3\n",
        );
        assert_eq!(
            servers.addresses,
            ["192.0.2.1:53", "[2001:db8::1]:53", "192.0.2.2:53"].map(|text| text.parse::<SocketAddr>().unwrap())
        );
        let scoped = parse("nameserver fe80::1%eth0\nnameserver fe80::2%3\nnameserver fe80::3%nowhere\n").addresses;
        let expected =
            [("fe80::1", 7), ("fe80::2", 3)].map(|(text, scope)| SocketAddrV6::new(text.parse().unwrap(), 53, 0, scope).into());
        assert_eq!(scoped, expected);
    }

    #[test]
    fn without_servers_this_machine_is_asked() {
        for text in
            ["", "nameserver\n", "nameserver example.com\n", "nameservers 192.0.2.1\n", "#nameserver 192.0.2.1\n", "\0\u{fffd}"]
        {
            assert_eq!(parse(text), Servers::default(), "{text:?}");
        }
    }

    #[test]
    fn options_stay_within_bounds() {
        let read = |text: &str| {
            let servers = parse(text);
            (servers.timeout.as_secs(), servers.attempts, servers.transport)
        };
        assert_eq!(read("options timeout:1 attempts:3 ndots:5 rotate\n"), (1, 3, FirstTry::Udp));
        assert_eq!(read("options timeout:0 attempts:0\noptions use-vc\n"), (1, 1, FirstTry::Tcp));
        assert_eq!(read("options timeout:99999 attempts:99\n"), (30, 5, FirstTry::Udp));
        assert_eq!(read("options timeout:-1 attempts:x timeout\n"), (3, 2, FirstTry::Udp));
    }

    #[test]
    fn the_last_search_list_holds() {
        let search = |text: &str| parse(text).search.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(search("search a.example b.example\ndomain c.example\n"), ["c.example"]);
        assert_eq!(search("search a.example . 127.0.0.1 B.example.\n"), ["a.example", "b.example"]);
        assert_eq!(search("search a b c d e f g h\n").len(), MOST_DOMAINS);
    }
}
