//! Providers: how the processes of a sandbox are isolated over its stack of layers.
//!
//! `contract` is what the engine knows of one; `native` is the one there is so far. A provider starts a keeper somewhere, finds it
//! again and ends it; `inside` is what that keeper does to itself. What it sees is not known here.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod contract;
mod error;
mod finding;
pub mod groups;
pub mod inside;
mod native;
mod paused;

pub use self::contract::{
    Capabilities, Entrance, Instance, Launch, Launched, Orphan, Prepared, Probe, Provider, Recorded, Whereabouts,
};
pub use self::error::{LaunchError, UnknownProvider};
pub use self::finding::{Finding, Verdict};
pub use self::native::KEEPER_COMMAND;
pub use self::paused::{Paused, Pausing};

/// All there are, the usual one first.
pub const ALL: [&dyn Provider; 1] = [&native::Native];

/// The one for those who ask for none by name.
#[must_use]
pub fn usual() -> &'static dyn Provider {
    ALL[0]
}

/// The provider of that name.
pub fn by_name(name: &str) -> Result<&'static dyn Provider, UnknownProvider> {
    ALL.into_iter().find(|provider| provider.name() == name).ok_or_else(|| UnknownProvider { name: name.to_owned() })
}
