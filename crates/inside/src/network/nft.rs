//! The rules of nf_tables, as one batch: running `nft` would cost more than the rest of a sandbox.
//!
//! ```text
//! table inet whatif {
//!   chain redirect {
//!     type nat hook output priority -100
//!     udp dport 53 redirect to :PORT
//!     tcp dport 53 redirect to :PORT
//!     ip daddr 127.0.0.0/8 return
//!     ip6 daddr ::1 return
//!     meta l4proto tcp redirect to :PORT
//!   }
//!   chain rest {
//!     type filter hook output priority 0; policy drop
//!     ip daddr 127.0.0.0/8 accept
//!     ip6 daddr ::1 accept
//!     ct status dnat accept
//!   }
//! }
//! ```

use std::io;
use std::net::Ipv6Addr;

use super::netlink::{ACKNOWLEDGE, APPEND, CREATE, Messages, NETFILTER};

const SUBSYSTEM: u16 = 10;
const BATCH_BEGIN: u16 = 0x10;
const BATCH_END: u16 = 0x11;
const NEW_TABLE: u16 = SUBSYSTEM << 8;
const NEW_CHAIN: u16 = SUBSYSTEM << 8 | 3;
const NEW_RULE: u16 = SUBSYSTEM << 8 | 6;

/// Family `inet`, version 0.
const INET: [u8; 4] = [1, 0, 0, 0];
/// A batch names its subsystem where messages have a resource.
const BATCH: [u8; 4] = [0, 0, 0, SUBSYSTEM as u8];

const TABLE: &str = "whatif";
const REDIRECT: &str = "redirect";
const REST: &str = "rest";

const OUTPUT_HOOK: u32 = 3;
const DROP: u32 = 0;
const ACCEPT: u32 = 1;
const RETURN: u32 = -5_i32 as u32;

const VERDICT_REGISTER: u32 = 0;
const REGISTER: u32 = 1;

const IPV4: u8 = 2;
const IPV6: u8 = 10;
const TCP: u8 = 6;
const UDP: u8 = 17;
const DNS_PORT: u16 = 53;
const STATUS_DNAT: u32 = 1 << 5;

/// Everything that leaves goes to this port of loopback, or nowhere.
pub fn redirect_to(port: u16) -> io::Result<()> {
    let mut batch = Messages::default();
    batch.message(BATCH_BEGIN, 0, &BATCH, |_| {});
    batch.message(NEW_TABLE, CREATE, &INET, |m| {
        m.text(1, TABLE);
        m.number(2, 0);
    });
    chain(&mut batch, REDIRECT, "nat", -100, ACCEPT);
    chain(&mut batch, REST, "filter", 0, DROP);

    rule(&mut batch, REDIRECT, 0, |m| question(m, UDP, port));
    rule(&mut batch, REDIRECT, 0, |m| question(m, TCP, port));
    rule(&mut batch, REDIRECT, 0, |m| to_loopback_ipv4(m, RETURN));
    rule(&mut batch, REDIRECT, 0, |m| to_loopback_ipv6(m, RETURN));
    rule(&mut batch, REDIRECT, 0, |m| {
        is_protocol(m, TCP);
        redirect(m, port);
    });

    rule(&mut batch, REST, 0, |m| to_loopback_ipv4(m, ACCEPT));
    rule(&mut batch, REST, 0, |m| to_loopback_ipv6(m, ACCEPT));
    // What was redirected, and the answers to it. An error in any message comes before this acknowledgement.
    rule(&mut batch, REST, ACKNOWLEDGE, |m| {
        was_redirected(m);
        verdict(m, ACCEPT);
    });
    batch.message(BATCH_END, 0, &BATCH, |_| {});
    batch.send(NETFILTER)
}

fn chain(batch: &mut Messages, name: &str, kind: &str, priority: i32, policy: u32) {
    batch.message(NEW_CHAIN, CREATE, &INET, |m| {
        m.text(1, TABLE);
        m.text(3, name);
        m.nested(4, |m| {
            m.number(1, OUTPUT_HOOK);
            m.number(2, priority as u32);
        });
        m.number(5, policy);
        m.text(7, kind);
    });
}

fn rule(batch: &mut Messages, chain: &str, flags: u16, expressions: impl FnOnce(&mut Messages)) {
    batch.message(NEW_RULE, CREATE | APPEND | flags, &INET, |m| {
        m.text(1, TABLE);
        m.text(2, chain);
        m.nested(4, expressions);
    });
}

fn question(m: &mut Messages, protocol: u8, port: u16) {
    is_protocol(m, protocol);
    load_payload(m, 2, 2, 2);
    equals(m, &DNS_PORT.to_be_bytes());
    redirect(m, port);
}

fn to_loopback_ipv4(m: &mut Messages, code: u32) {
    is_family(m, IPV4);
    // The first byte of the destination: 127.0.0.0/8.
    load_payload(m, 1, 16, 1);
    equals(m, &[127]);
    verdict(m, code);
}

fn to_loopback_ipv6(m: &mut Messages, code: u32) {
    is_family(m, IPV6);
    load_payload(m, 1, 24, 16);
    equals(m, &Ipv6Addr::LOCALHOST.octets());
    verdict(m, code);
}

fn is_family(m: &mut Messages, family: u8) {
    load_meta(m, 15);
    equals(m, &[family]);
}

fn is_protocol(m: &mut Messages, protocol: u8) {
    load_meta(m, 16);
    equals(m, &[protocol]);
}

fn was_redirected(m: &mut Messages) {
    expression(m, "ct", |m| {
        m.number(1, REGISTER);
        m.number(2, 2);
    });
    expression(m, "bitwise", |m| {
        m.number(1, REGISTER);
        m.number(2, REGISTER);
        m.number(3, 4);
        m.nested(4, |m| m.attribute(1, &STATUS_DNAT.to_ne_bytes()));
        m.nested(5, |m| m.attribute(1, &[0; 4]));
    });
    expression(m, "cmp", |m| {
        m.number(1, REGISTER);
        m.number(2, 1);
        m.nested(3, |m| m.attribute(1, &[0; 4]));
    });
}

fn load_meta(m: &mut Messages, key: u32) {
    expression(m, "meta", |m| {
        m.number(2, key);
        m.number(1, REGISTER);
    });
}

/// From the network header (base 1) or the transport header (base 2).
fn load_payload(m: &mut Messages, base: u32, offset: u32, length: u32) {
    expression(m, "payload", |m| {
        m.number(1, REGISTER);
        m.number(2, base);
        m.number(3, offset);
        m.number(4, length);
    });
}

fn equals(m: &mut Messages, value: &[u8]) {
    expression(m, "cmp", |m| {
        m.number(1, REGISTER);
        m.number(2, 0);
        m.nested(3, |m| m.attribute(1, value));
    });
}

fn redirect(m: &mut Messages, port: u16) {
    expression(m, "immediate", |m| {
        m.number(1, REGISTER);
        m.nested(2, |m| m.attribute(1, &port.to_be_bytes()));
    });
    expression(m, "redir", |m| {
        m.number(1, REGISTER);
        m.number(2, REGISTER);
    });
}

fn verdict(m: &mut Messages, code: u32) {
    expression(m, "immediate", |m| {
        m.number(1, VERDICT_REGISTER);
        m.nested(2, |m| m.nested(2, |m| m.number(1, code)));
    });
}

fn expression(m: &mut Messages, name: &str, data: impl FnOnce(&mut Messages)) {
    m.nested(1, |m| {
        m.text(1, name);
        m.nested(2, data);
    });
}
