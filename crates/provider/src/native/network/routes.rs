//! Every address there is becomes one of this namespace's own.

use std::io;
use std::net::Ipv4Addr;

use super::netlink::{ACKNOWLEDGE, APPEND, CREATE, Messages, ROUTE};

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

pub fn make_everything_local(with_ipv6: bool) -> io::Result<()> {
    let mut messages = Messages::default();
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

/// A `struct rtmsg` for all addresses of a family.
fn route(family: u8, scope: u8) -> [u8; 12] {
    [family, 0, 0, 0, LOCAL_TABLE, BY_BOOT, scope, LOCAL, 0, 0, 0, 0]
}
