//! `/etc/hosts`: names that the host has written down itself.

use std::collections::HashMap;
use std::net::IpAddr;

use whatif_netpolicy::HostName;

/// Nobody writes down more for one name; block lists have many names with one address each.
const MOST_ADDRESSES: usize = 32;

#[derive(Debug, Default)]
pub(super) struct Hosts {
    by_name: HashMap<HostName, Vec<IpAddr>>,
}

impl Hosts {
    /// What is no address or no name is passed over, as everybody does.
    pub(super) fn parse(text: &[u8]) -> Self {
        let mut hosts = Self::default();
        for line in text.split(|byte| *byte == b'\n') {
            hosts.add_line(line);
        }
        hosts
    }

    fn add_line(&mut self, line: &[u8]) {
        let line = line.split(|byte| *byte == b'#').next().unwrap_or_default();
        let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let address = words.next().and_then(|word| std::str::from_utf8(word).ok()?.parse::<IpAddr>().ok());
        let Some(address) = address.map(|address| address.to_canonical()) else { return };
        for name in words.filter_map(|word| HostName::parse(word).ok()) {
            let addresses = self.by_name.entry(name).or_default();
            if addresses.len() < MOST_ADDRESSES && !addresses.contains(&address) {
                addresses.push(address);
            }
        }
    }

    /// The names of an address, in no order that means anything but always the same.
    pub(super) fn names(&self, address: IpAddr) -> Vec<HostName> {
        let address = address.to_canonical();
        let mut names: Vec<HostName> =
            self.by_name.iter().filter(|(_, all)| all.contains(&address)).map(|(name, _)| name.clone()).collect();
        names.sort();
        names
    }

    /// `None` if the file does not know the name. If it does, it is asked for nowhere else, for either family.
    pub(super) fn addresses(&self, name: &HostName) -> Option<&[IpAddr]> {
        self.by_name.get(name).map(Vec::as_slice)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_aliases_have_all_their_addresses() {
        let hosts = Hosts::parse(
            b"# comment\n127.0.0.1\tlocalhost\n 10.0.0.5  DB.internal db # the database\n\n2001:db8::5 db.internal\r\n\
              ::ffff:10.0.0.6 db\n10.0.0.5 db\nnonsense db.internal\n10.0.0.256 db.internal\nfe80::1%eth0 scoped\n\
              10.0.0.7\n10.0.0.8 evil\0name 127.1 *.star ok\n\xff\xff bytes\n10.0.0.9 last",
        );
        let addresses =
            |name: &str| hosts.addresses(&name.parse().unwrap()).map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>());
        assert_eq!(addresses("db.internal"), Some(vec!["10.0.0.5".to_owned(), "2001:db8::5".to_owned()]));
        assert_eq!(addresses("db"), Some(vec!["10.0.0.5".to_owned(), "10.0.0.6".to_owned()]));
        assert_eq!(addresses("ok"), Some(vec!["10.0.0.8".to_owned()]));
        assert_eq!(addresses("last"), Some(vec!["10.0.0.9".to_owned()]));
        let names = |text: &str| hosts.names(text.parse().unwrap()).iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(names("10.0.0.5"), ["db", "db.internal"]);
        assert_eq!(names("::ffff:10.0.0.6"), ["db"]);
        assert!(names("10.0.0.1").is_empty());
        for name in ["the", "database", "scoped", "bytes", "internal"] {
            assert_eq!(addresses(name), None, "{name}");
        }
    }
}
