//! The life of a sandbox: it is made, starts, runs commands on a view of reality, goes to rest, is removed.

pub mod attach;
pub(crate) mod boot;
pub(crate) mod captured;
pub mod copy;
pub(crate) mod create;
pub(crate) mod exec;
pub(crate) mod list;
pub mod logs;
pub(crate) mod marks;
pub(crate) mod plant;
mod precise_times;
pub(crate) mod recut;
pub(crate) mod remove;
pub(crate) mod run;
pub(crate) mod shelf;
pub mod shift;
pub(crate) mod show;
pub(crate) mod start;
pub(crate) mod stats;
pub(crate) mod stop;
pub(crate) mod trial;
pub(crate) mod view;

use std::sync::Arc;

use crate::ground::Ground;
use crate::network::Network;

#[derive(Debug)]
pub struct Lifecycle {
    pub(crate) ground: Arc<Ground>,
    pub(crate) network: Arc<Network>,
}
