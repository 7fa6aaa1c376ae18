//! Control groups for sandboxes: what this machine offers this user, and the making, reading and removing of them.
//!
//! `tables` reads the kernel's tables (pure), `found` decides with them what can be used, `group` makes one sandbox's group,
//! `meter` reads it in the keeper, `freezer` holds with one, `remove` and `search` find and take away what is left. Which limits there
//! should be, and what is done where there are no control groups, is not this crate's business.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod error;
mod file;
mod found;
mod freezer;
mod group;
mod limits;
mod meter;
mod name;
mod remove;
mod scope;
mod search;
mod tables;
mod unified;

pub use error::CgroupError;
pub use found::{Found, Resource, Why, is_unified};
pub use freezer::{About, Freezer, Site, thaw};
pub use group::Group;
pub use meter::{Meter, Meters};
pub use remove::{remove, remove_at, tidy};
pub use scope::Scope;
pub use search::list;

use serde::{Deserialize, Serialize};

/// Which generation of control groups limits something. Both can be in use at once, each for other resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Version {
    V1,
    V2,
}

/// What a group is to limit. `None` is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Thousandths of a processor.
    pub cpus_milli: Option<u32>,
    /// How processor time is shared out when it is scarce: 100 is a group's usual part.
    pub cpu_weight: Option<u32>,
    /// In bytes, swap included.
    pub memory: Option<u64>,
    /// So much may be swapped out on top of that.
    pub swap: u64,
    /// Processes and threads.
    pub pids: Option<u64>,
}
