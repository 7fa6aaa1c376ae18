//! What runs inside: the keeper's program, which is PID 1 of a sandbox, and the helper that puts a sandbox on other layers.
//!
//! `keeper` is the life of the first, step by step. `join` before and `confine` after its view is put together are what it does to
//! itself; `network` is what its network is made of. `init` is the keeper of a root that has nothing else. `restack` is the helper,
//! `entrance` its way to the mounts of a keeper.
//!
//! Nothing here runs outside a sandbox. Who started the keeper, and how it is ended, is the provider's.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod confine;
mod entrance;
mod error;
pub mod init;
mod join;
pub mod keeper;
pub mod network;
pub mod restack;

pub use self::error::KeeperError;
