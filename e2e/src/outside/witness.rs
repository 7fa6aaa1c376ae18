//! What has passed the outside's only interface, as the kernel counts it: what was not sent cannot be in there.

use std::fs;

/// Compare two of them; what they have in common is nobody's business.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Witness {
    /// All packets of any kind.
    pub packets: u64,
    /// TCP connections that somebody out there tried to open.
    pub tcp_opened: u64,
    /// UDP datagrams sent, over IPv4 and IPv6.
    pub udp_sent: u64,
}

impl Witness {
    pub(super) fn now() -> Self {
        let snmp = read("/proc/net/snmp");
        let udp6 = read("/proc/net/snmp6").lines().find_map(|l| l.strip_prefix("Udp6OutDatagrams")?.trim().parse().ok());
        Self {
            packets: loopback_packets(),
            tcp_opened: counter(&snmp, "Tcp:", "ActiveOpens"),
            udp_sent: counter(&snmp, "Udp:", "OutDatagrams") + udp6.unwrap_or(0),
        }
    }
}

impl super::Outside {
    #[must_use]
    pub fn witness(&self) -> Witness {
        Witness::now()
    }

    /// Whether no connection is open out there, or about to be closed: its end is packets, too.
    #[must_use]
    pub fn is_quiet(&self) -> bool {
        // Below its heading: who listens, and what is over and only remembered.
        let quiet = ["st", "0A", "06"];
        let table = [read("/proc/net/tcp"), read("/proc/net/tcp6")].concat();
        table.lines().filter_map(|line| line.split_whitespace().nth(3)).all(|state| quiet.contains(&state))
    }

    /// Does something, and panics if a single packet was sent outside meanwhile.
    #[track_caller]
    pub fn nothing_leaves<T>(&self, what: &str, doing: impl FnOnce() -> T) -> T {
        let before = Witness::now();
        let result = doing();
        assert_eq!(before, Witness::now(), "{what}: something left");
        result
    }
}

pub(super) fn interfaces() -> Vec<String> {
    let table = read("/proc/net/dev");
    table.lines().skip(2).filter_map(|line| Some(line.split_once(':')?.0.trim().to_owned())).collect()
}

fn loopback_packets() -> u64 {
    let table = read("/proc/net/dev");
    let line = table.lines().find_map(|line| line.trim().strip_prefix("lo:")).expect("there is a loopback");
    line.split_whitespace().nth(9).and_then(|n| n.parse().ok()).expect("a number of packets sent")
}

/// A line of names, then a line of values.
fn counter(table: &str, protocol: &str, name: &str) -> u64 {
    let mut lines = table.lines().filter(|line| line.starts_with(protocol));
    let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
    let found = names.split(' ').zip(values.split(' ')).find(|(n, _)| *n == name);
    found.and_then(|(_, value)| value.parse().ok()).expect("the kernel counts it")
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{path}: {e}"))
}
