//! What a sandbox changed, and how that becomes real: diff, review, status, rebase, apply, undo.

pub mod apply;
pub mod checks;
pub mod commit;
mod database;
pub mod diff;
pub(crate) mod error;
pub mod gate;
pub mod history;
pub mod rebase;
pub mod reject;
pub mod review;
pub mod status;
pub(crate) mod turn;
pub mod undo;

use std::sync::Arc;

pub use self::error::{ChangedPath, ChangesError, shell_in, signal_name};
use crate::ground::Ground;
use crate::lifecycle::Lifecycle;

#[derive(Debug)]
pub struct Changes {
    pub(crate) ground: Arc<Ground>,
    pub(crate) lifecycle: Arc<Lifecycle>,
}
