//! Addresses that stand for names.
//!
//! The sandbox asks for a name and gets an address that exists nowhere; when it connects there, the name is known exactly.
//! The table is bounded: the name that was used the longest ago goes first, unless a connection still holds it. An address is
//! given out again only after all others have been, so that an answer a program has remembered does not soon mean another name.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use crate::{HostName, Network};

/// Where IPv4 stand-ins come from: kept free for benchmarks, so nothing real is there.
pub const IPV4_POOL: Network = Network::v4([198, 18, 0, 0], 15);
const POOL_BASE: u32 = u32::from_be_bytes([198, 18, 0, 0]);
const POOL_SIZE: u32 = 1 << 17;
/// At most half of the pool, so that an unused address is always near.
pub const LARGEST_CAPACITY: usize = 1 << 16;
pub const USUAL_CAPACITY: usize = 4096;

#[derive(Debug)]
pub struct SyntheticTable {
    ipv6_base: u128,
    capacity: usize,
    clock: u64,
    next: u32,
    by_number: BTreeMap<u32, Slot>,
    by_name: BTreeMap<HostName, u32>,
    /// Last use to number; uses have distinct times.
    by_use: BTreeMap<u64, u32>,
}

#[derive(Debug)]
struct Slot {
    /// Shared with whoever holds it.
    name: Arc<HostName>,
    used: u64,
}

/// The two stand-ins of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StandIn {
    pub ipv4: Ipv4Addr,
    pub ipv6: Ipv6Addr,
}

/// Keeps a name's stand-ins from being given to another while a connection uses them.
#[derive(Clone, Debug)]
pub struct Held(Arc<HostName>);

impl Held {
    #[must_use]
    pub fn name(&self) -> &HostName {
        &self.0
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SyntheticError {
    #[error("{0} is not the base of a private /64 (fd00::/8)")]
    NotPrivate(Ipv6Addr),
    #[error("a table holds from 1 to {LARGEST_CAPACITY} names")]
    Capacity,
    #[error("every name in the table is in use by a connection")]
    Full,
}

impl SyntheticTable {
    /// `ipv6_base` is the first address of a /64 below `fd00::/8` that nothing else uses.
    ///
    /// # Errors
    /// If the base is not such an address, or the capacity is out of range.
    pub fn new(ipv6_base: Ipv6Addr, capacity: usize) -> Result<Self, SyntheticError> {
        let bits = ipv6_base.to_bits();
        // The lower 64 bits are the number of the stand-in.
        if ipv6_base.octets()[0] != 0xfd || bits & u128::from(u64::MAX) != 0 {
            return Err(SyntheticError::NotPrivate(ipv6_base));
        }
        if !(1..=LARGEST_CAPACITY).contains(&capacity) {
            return Err(SyntheticError::Capacity);
        }
        Ok(Self {
            ipv6_base: bits,
            capacity,
            clock: 0,
            next: 1,
            by_number: BTreeMap::new(),
            by_name: BTreeMap::new(),
            by_use: BTreeMap::new(),
        })
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.by_number.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_number.is_empty()
    }

    /// The stand-ins of a name; the same ones for as long as the name is in the table.
    ///
    /// # Errors
    /// If the table is full of names that connections hold.
    pub fn assign(&mut self, name: &HostName) -> Result<StandIn, SyntheticError> {
        if let Some(number) = self.by_name.get(name).copied() {
            self.touch(number);
            return Ok(self.stand_in(number));
        }
        if self.len() >= self.capacity {
            self.evict()?;
        }
        let number = self.free_number();
        let used = self.tick();
        self.by_number.insert(number, Slot { name: Arc::new(name.clone()), used });
        self.by_name.insert(name.clone(), number);
        self.by_use.insert(used, number);
        Ok(self.stand_in(number))
    }

    /// The name an address stands for, held for as long as the answer lives.
    pub fn hold(&mut self, address: IpAddr) -> Option<Held> {
        let number = self.number_of(address)?;
        self.touch(number);
        self.by_number.get(&number).map(|slot| Held(Arc::clone(&slot.name)))
    }

    /// The name an address stands for. To be asked is no use: the name goes no later for it.
    #[must_use]
    pub fn name_of(&self, address: IpAddr) -> Option<&HostName> {
        let number = self.number_of(address)?;
        self.by_number.get(&number).map(|slot| slot.name.as_ref())
    }

    /// Whether an address could be a stand-in of this table, known or not. Such an address is never dialled.
    #[must_use]
    pub fn is_stand_in(&self, address: IpAddr) -> bool {
        match address.to_canonical() {
            IpAddr::V4(_) => IPV4_POOL.contains(address.to_canonical()),
            IpAddr::V6(v6) => v6.to_bits() >> 64 == self.ipv6_base >> 64,
        }
    }

    fn number_of(&self, address: IpAddr) -> Option<u32> {
        if !self.is_stand_in(address) {
            return None;
        }
        match address.to_canonical() {
            IpAddr::V4(v4) => v4.to_bits().checked_sub(POOL_BASE),
            IpAddr::V6(v6) => u32::try_from(v6.to_bits() & u128::from(u64::MAX)).ok(),
        }
    }

    fn stand_in(&self, number: u32) -> StandIn {
        StandIn { ipv4: Ipv4Addr::from_bits(POOL_BASE | number), ipv6: Ipv6Addr::from_bits(self.ipv6_base | u128::from(number)) }
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    fn touch(&mut self, number: u32) {
        let now = self.tick();
        if let Some(slot) = self.by_number.get_mut(&number) {
            self.by_use.remove(&slot.used);
            slot.used = now;
            self.by_use.insert(now, number);
        }
    }

    fn evict(&mut self) -> Result<(), SyntheticError> {
        let is_free = |number: &u32| self.by_number.get(number).is_some_and(|slot| Arc::strong_count(&slot.name) == 1);
        let oldest = self.by_use.values().copied().find(is_free).ok_or(SyntheticError::Full)?;
        if let Some(slot) = self.by_number.remove(&oldest) {
            self.by_use.remove(&slot.used);
            self.by_name.remove(slot.name.as_ref());
        }
        Ok(())
    }

    /// The next number that nothing uses. The first and the last of the pool are left out: some programs take an address that
    /// ends in all zeros or ones for a network.
    fn free_number(&mut self) -> u32 {
        loop {
            let number = self.next;
            self.next = if number + 1 >= POOL_SIZE - 1 { 1 } else { number + 1 };
            if !self.by_number.contains_key(&number) {
                return number;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(capacity: usize) -> SyntheticTable {
        SyntheticTable::new("fd12:3456:789a:1::".parse().unwrap(), capacity).unwrap()
    }

    fn name(number: usize) -> HostName {
        format!("n{number}.example").parse().unwrap()
    }

    fn held_name(table: &mut SyntheticTable, address: impl Into<IpAddr>) -> Option<HostName> {
        table.hold(address.into()).map(|held| held.name().clone())
    }

    #[test]
    fn a_name_keeps_its_stand_ins_and_both_lead_back() {
        let mut table = table(16);
        let first = table.assign(&name(1)).unwrap();
        let second = table.assign(&name(2)).unwrap();
        assert_eq!(first.ipv4, Ipv4Addr::new(198, 18, 0, 1));
        assert_eq!(first.ipv6, "fd12:3456:789a:1::1".parse::<Ipv6Addr>().unwrap());
        assert_ne!(first, second);
        assert_eq!(table.assign(&name(1)).unwrap(), first);
        assert_eq!(held_name(&mut table, first.ipv4), Some(name(1)));
        assert_eq!(held_name(&mut table, first.ipv6), Some(name(1)));
        assert_eq!(held_name(&mut table, second.ipv4.to_ipv6_mapped()), Some(name(2)));
    }

    #[test]
    fn asking_for_the_name_of_an_address_keeps_nothing() {
        let mut table = table(2);
        let first = table.assign(&name(1)).unwrap();
        table.assign(&name(2)).unwrap();
        assert_eq!(table.name_of(first.ipv4.into()), Some(&name(1)));
        assert_eq!(table.name_of(first.ipv6.into()), Some(&name(1)));
        assert_eq!(table.name_of("198.18.0.9".parse().unwrap()), None);
        table.assign(&name(3)).unwrap();
        assert_eq!(table.name_of(first.ipv4.into()), None);
    }

    #[test]
    fn addresses_that_were_never_given_lead_nowhere() {
        let mut table = table(16);
        table.assign(&name(1)).unwrap();
        for address in [
            "198.18.0.0",
            "198.18.0.2",
            "198.19.255.255",
            "198.17.255.255",
            "1.1.1.1",
            "fd12:3456:789a:1::",
            "fd12:3456:789a:1:0:1:0:1",
            "fd12:3456:789a:2::1",
            "::1",
        ] {
            assert_eq!(held_name(&mut table, address.parse::<IpAddr>().unwrap()), None, "{address}");
        }
        assert!(table.is_stand_in("198.19.255.255".parse().unwrap()) && table.is_stand_in("::ffff:198.18.0.1".parse().unwrap()));
        assert!(
            table.is_stand_in("fd12:3456:789a:1:ffff::".parse().unwrap())
                && !table.is_stand_in("fd12:3456:789a:2::".parse().unwrap())
        );
    }

    #[test]
    fn the_longest_unused_name_goes_first() {
        let mut table = table(3);
        let addresses = [1, 2, 3].map(|number| table.assign(&name(number)).unwrap());
        assert!(table.hold(addresses[0].ipv4.into()).is_some());
        table.assign(&name(4)).unwrap();
        assert_eq!(held_name(&mut table, addresses[1].ipv4), None);
        assert_eq!(held_name(&mut table, addresses[0].ipv4), Some(name(1)));
        assert_eq!(table.len(), 3);
        assert_eq!(table.assign(&name(3)), Ok(addresses[2]), "being asked for is a use as well");
        table.assign(&name(5)).unwrap();
        assert_eq!(table.assign(&name(3)), Ok(addresses[2]));
    }

    #[test]
    fn a_held_name_stays_and_a_table_of_held_names_is_full() {
        let mut table = table(2);
        let first = table.assign(&name(1)).unwrap();
        let second = table.assign(&name(2)).unwrap();
        let held = table.hold(first.ipv4.into()).unwrap();
        for number in 3..1000 {
            table.assign(&name(number)).unwrap();
        }
        assert_eq!(held_name(&mut table, first.ipv4), Some(name(1)));
        assert_eq!(held_name(&mut table, second.ipv4), None);
        let last = table.assign(&name(999)).unwrap();
        let other = table.hold(last.ipv6.into()).unwrap();
        assert_eq!(table.assign(&name(1000)), Err(SyntheticError::Full));
        assert_eq!(table.assign(&name(1)), Ok(first));
        drop((held, other));
        assert!(table.assign(&name(1000)).is_ok());
    }

    #[test]
    fn an_address_comes_back_only_after_all_others_and_never_while_held() {
        let mut table = table(2);
        let first = table.assign(&name(0)).unwrap();
        let held = table.hold(first.ipv4.into()).unwrap();
        let second = table.assign(&name(1)).unwrap();
        let rounds = POOL_SIZE as usize + 10;
        let mut seen_again = None;
        for number in 2..rounds {
            let given = table.assign(&name(number)).unwrap();
            assert!(IPV4_POOL.contains(given.ipv4.into()));
            assert_ne!(given.ipv4, first.ipv4);
            if given.ipv4 == second.ipv4 {
                seen_again = Some(number);
                break;
            }
        }
        // The pool without its two ends and the one that is held.
        assert_eq!(seen_again, Some(POOL_SIZE as usize - 2));
        assert_eq!(held.name(), &name(0));
    }

    #[test]
    fn bases_that_are_not_private_networks_are_refused() {
        for base in ["2001:db8::", "fc00::", "fe80::", "::", "fd00::1", "fd00:0:0:0:1::"] {
            assert!(SyntheticTable::new(base.parse().unwrap(), 16).is_err(), "{base}");
        }
        for capacity in [0, LARGEST_CAPACITY + 1, usize::MAX] {
            assert_eq!(SyntheticTable::new("fd00::".parse().unwrap(), capacity).unwrap_err(), SyntheticError::Capacity);
        }
    }
}
