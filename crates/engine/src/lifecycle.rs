//! The life of a sandbox: it is made, starts, runs commands on a view of reality, goes to rest, is removed.

mod ahead;
pub mod alter;
pub mod attach;
mod attend;
pub mod background;
pub(crate) mod boot;
pub(crate) mod captured;
pub mod copy;
pub(crate) mod create;
mod error;
pub(crate) mod exec;
pub mod files;
pub mod list;
pub mod logs;
pub(crate) mod marks;
pub(crate) mod plant;
mod precise_times;
pub(crate) mod recut;
pub(crate) mod remove;
pub(crate) mod run;
pub(crate) mod shelf;
pub mod shift;
pub mod show;
pub(crate) mod start;
pub mod stats;
pub(crate) mod stop;
pub(crate) mod trial;
pub(crate) mod unrecorded;
pub(crate) mod view;

use std::sync::Arc;

pub use self::error::{FileError, FileProblem, LifecycleError, Recut};
use crate::ground::Ground;
use crate::network::Network;

#[derive(Debug)]
pub struct Lifecycle {
    pub(crate) ground: Arc<Ground>,
    pub(crate) network: Arc<Network>,
}
