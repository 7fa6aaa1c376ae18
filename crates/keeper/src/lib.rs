//! The keeper: PID 1 of a sandbox, and how to talk to it.
//!
//! `protocol` is what is said, `channel` how it travels, `client` one side (used by the engine), `server` the other; `log` is what
//! becomes of the output nobody waits for.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod channel;
pub mod client;
mod clock;
pub mod log;
pub mod protocol;
pub mod server;

pub use channel::{Channel, ChannelError};
pub use client::Client;
pub use clock::since_boot_ms;
