//! The keeper: PID 1 of a sandbox, and how to talk to it.
//!
//! `protocol` is what is said, `channel` how it travels, `stream` how it travels where no descriptors can, `client` one side (used by the engine), `server` the other, and `transport` how the former reach the latter; `log` is what
//! becomes of the output nobody waits for.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod channel;
pub mod client;
mod clock;
pub mod command_line;
pub mod log;
pub mod protocol;
pub mod server;
pub mod stream;
pub mod transport;

pub use channel::{Channel, ChannelError};
pub use client::Client;
pub use clock::since_boot_ms;
