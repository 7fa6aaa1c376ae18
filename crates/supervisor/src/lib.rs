//! The supervisor of a sandbox's network: outside, it accepts what the sandbox sends, decides, and dials.
//!
//! One process for each sandbox, with the user's own rights less what [`confine`] takes away. It holds the only listeners that the
//! sandbox's connections arrive at, so without it there is no network. What is decided is pure and lives in `whatif-netpolicy`;
//! here are sockets, time and the record.
//!
//! | module | what it does |
//! | --- | --- |
//! | `accept`, `slots` | takes connections in and finds out what they are for |
//! | `connection` | the way of one connection through the decisions, and how it ends |
//! | `http_relay`, `relay` | bytes, read or unread |
//! | `proxy`, `reach`, `published` | clients that know of the proxy; the host's loopback; ports from outside in |
//! | `resolver`, `name_server` | names |
//! | `secrets` | hosts for which there are secrets |
//! | `dial`, `upstream` | connections outside, directly or by the user's own proxy |
//! | `rules`, `asks`, `control`, `log` | what holds, who is asked, who commands, what is recorded |
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod accept;
mod allowance;
mod answers;
mod asks;
mod confine;
mod connection;
mod connections;
pub mod control;
mod dial;
mod first_bytes;
mod http_relay;
mod keeper;
mod log;
pub mod name_server;
mod original_destination;
mod pipes;
mod proxy;
mod published;
mod quota;
mod reach;
mod relay;
pub mod resolver;
mod rules;
mod secrets;
mod slots;
mod start;
mod supervisor;
mod upstream;
mod verdict;

pub use start::serve;
