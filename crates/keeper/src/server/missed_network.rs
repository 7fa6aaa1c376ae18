//! Whether anybody inside missed the network: the kernel counts packets that had nowhere to go.

use std::fs;

/// True when something was sent to an address without a route, or asked a name server that is not there.
pub(super) fn was_missed() -> bool {
    let v4 = fs::read_to_string("/proc/self/net/snmp").unwrap_or_default();
    let v6 = fs::read_to_string("/proc/self/net/snmp6").unwrap_or_default();
    counter(&v4, "Ip:", "OutNoRoutes") + counter(&v4, "Udp:", "NoPorts") + counter6(&v6, "Ip6OutNoRoutes") > 0
}

/// The file has a line of names and a line of values for each protocol.
fn counter(text: &str, protocol: &str, name: &str) -> u64 {
    let mut lines = text.lines().filter(|l| l.starts_with(protocol));
    let (Some(names), Some(values)) = (lines.next(), lines.next()) else { return 0 };
    let found = names.split_whitespace().zip(values.split_whitespace()).find(|(n, _)| *n == name);
    found.and_then(|(_, v)| v.parse().ok()).unwrap_or(0)
}

fn counter6(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|l| l.strip_prefix(name));
    line.and_then(|v| v.trim().parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_found_by_name() {
        let text = "Ip: Forwarding OutNoRoutes X\nIp: 1 7 2\nUdp: In NoPorts\nUdp: 3 4\n";
        assert_eq!(counter(text, "Ip:", "OutNoRoutes"), 7);
        assert_eq!(counter(text, "Udp:", "NoPorts"), 4);
        assert_eq!(counter(text, "Tcp:", "NoPorts"), 0);
        assert_eq!(counter6("Ip6InReceives 1\nIp6OutNoRoutes    \t5\n", "Ip6OutNoRoutes"), 5);
    }
}
