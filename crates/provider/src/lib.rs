//! Providers: how the processes of a sandbox are isolated over its stack of layers.
//!
//! `contract` is what the engine knows of one; `native` is the one there is so far. A provider starts a keeper somewhere, finds it
//! again and ends it. What that keeper does to itself, and what it sees, is not known here.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod bounds;
pub mod contract;
mod error;
mod finding;
mod native;
mod paused;
mod ports;
pub mod restack;

pub use self::bounds::{Binding, Bound, Enforcement, Remains, Weak};
pub use self::contract::{
    Capabilities, Instance, Launch, Launched, Launching, Orphan, Prepared, Probe, Provider, Recorded, Whereabouts,
};
pub use self::error::{BindError, CheckpointError, LaunchError, RestackError, UnknownProvider};
pub use self::finding::{Finding, Verdict};
pub use self::native::{Obstacle, is_container};
pub use self::paused::{Paused, Pausing};
pub use self::ports::Ports;
pub use self::restack::{Finishing, Restacker, Restacking};
/// What a control group refuses, and where an ordinary user can have one.
pub use whatif_cgroup::{CgroupError as LimitError, Scope};

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
