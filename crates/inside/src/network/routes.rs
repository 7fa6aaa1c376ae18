//! Every address there is becomes one of this namespace's own.

use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::netlink::{ACKNOWLEDGE, APPEND, CREATE, Messages, ROUTE};

const NEW_ADDRESS: u16 = 20;
const NO_DUPLICATE_DETECTION: u8 = 2;
/// Private, and nobody else's: this namespace has no neighbours.
const OWN_IPV6: Ipv6Addr = Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2);
const NEW_ROUTE: u16 = 24;
const OUT_INTERFACE: u16 = 4;
const PREFERRED_SOURCE: u16 = 7;
/// The index of `lo` in every network namespace.
const LOOPBACK: u32 = 1;

const LOCAL_TABLE: u8 = 255;
const BY_BOOT: u8 = 3;
const HOST_SCOPE: u8 = 254;
const ANYWHERE: u8 = 0;
const LOCAL: u8 = 2;

const INET: u8 = 2;
const INET6: u8 = 10;

/// Also, loopback gets addresses that are not loopback's own: the C library takes a family for absent that has only those.
pub fn make_everything_local(with_ipv6: bool) -> io::Result<()> {
    let mut messages = Messages::default();
    address(&mut messages, INET, 32, &Ipv4Addr::new(127, 0, 0, 2).octets());
    if with_ipv6 {
        address(&mut messages, INET6, 128, &OWN_IPV6.octets());
    }
    messages.message(NEW_ROUTE, CREATE | APPEND | ACKNOWLEDGE, &route(INET, HOST_SCOPE), |m| {
        m.attribute(OUT_INTERFACE, &LOOPBACK.to_ne_bytes());
        // Or connections would seem to come from where they go.
        m.attribute(PREFERRED_SOURCE, &Ipv4Addr::LOCALHOST.octets());
    });
    if with_ipv6 {
        messages.message(NEW_ROUTE, CREATE | APPEND | ACKNOWLEDGE, &route(INET6, ANYWHERE), |m| {
            m.attribute(OUT_INTERFACE, &LOOPBACK.to_ne_bytes());
        });
    }
    messages.send(ROUTE)
}

fn address(messages: &mut Messages, family: u8, prefix: u8, octets: &[u8]) {
    let [a, b, c, d] = LOOPBACK.to_ne_bytes();
    messages.message(NEW_ADDRESS, CREATE | ACKNOWLEDGE, &[family, prefix, NO_DUPLICATE_DETECTION, HOST_SCOPE, a, b, c, d], |m| {
        m.attribute(1, octets);
        m.attribute(2, octets);
    });
}

/// A `struct rtmsg` for all addresses of a family.
fn route(family: u8, scope: u8) -> [u8; 12] {
    [family, 0, 0, 0, LOCAL_TABLE, BY_BOOT, scope, LOCAL, 0, 0, 0, 0]
}
