//! Who may talk to whom: rules, decisions, and strict readers of what a sandbox sends (DNS, SOCKS, HTTP heads, TLS hellos)
//! and of what name servers answer.
//!
//! Everything here is pure. There are no sockets, clocks or threads; the supervisor passes bytes in and gets values out. What
//! a sandbox sends is hostile: no reader panics, none keeps more than a small fixed amount, and what is ambiguous is refused.
//!
//! The order in which a supervisor asks [`Policy::decide`]:
//!
//! 1. a DNS query ([`dns`]) → [`Request::Resolve`]; only an allowed name is asked for outside, but one that no rule speaks of
//!    gets an address from [`synthetic`] too, since the connection that follows tells the port;
//! 2. a connection arrives; its destination is looked up in [`synthetic`] → [`Request::Connect`];
//! 3. what the client sends first is read ([`tls`], [`http`]) → [`Request::Tls`], [`Request::Http`] (each request anew) or
//!    [`Request::Opaque`] for what is neither. Malformed beginnings are not relayed at all;
//! 4. the name is resolved outside → [`Request::Resolved`] for each address; the very address that was allowed is dialled.
//!
//! In some protocols the server speaks first. If [`Request::Opaque`] is allowed, the supervisor can go on to step 4 at once and
//! relay what the server sends, but it holds back the client's bytes until step 3, however late they come: a client that only
//! had to wait would never be judged.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod address;
pub mod authority;
pub mod chunks;
pub mod dns;
pub mod host;
pub mod http;
pub mod network;
pub mod path;
pub mod policy;
mod reader;
pub mod rule;
pub mod socks;
pub mod synthetic;
pub mod tls;

pub use address::AddressClass;
pub use authority::Authority;
pub use host::{Host, HostName};
pub use network::Network;
pub use policy::{Decision, Policy, Request};
pub use rule::Rule;
