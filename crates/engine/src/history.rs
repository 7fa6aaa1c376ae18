//! Where a sandbox was, and others that begin there: snapshots, rollbacks, forks, templates, archives.

mod error;
pub mod export;
pub mod fork;
pub mod import;
pub mod rollback;
pub mod snapshot;
pub mod snapshots;
pub mod template;

use std::sync::Arc;

pub use self::error::HistoryError;
use crate::ground::Ground;
use crate::lifecycle::Lifecycle;

#[derive(Debug)]
pub struct History {
    pub(crate) ground: Arc<Ground>,
    pub(crate) lifecycle: Arc<Lifecycle>,
}
