//! What every part stands on: the records, the state directory, who asks, and the sandboxes themselves — found, locked, looked at,
//! held still, counted.

pub(crate) mod changed;
pub mod chores;
pub(crate) mod ended;
pub(crate) mod freezer;
pub mod intact;
pub(crate) mod keepers;
pub(crate) mod label;
pub(crate) mod ledger;
pub(crate) mod lifetime;
pub mod limits;
pub mod lineage;
pub(crate) mod reach;
pub(crate) mod removed;
pub(crate) mod resolve;
pub mod stack;
pub(crate) mod still;
pub(crate) mod stray_heads;
pub(crate) mod unfinished;
pub mod usage;
pub(crate) mod viewed;
pub(crate) mod written_down;

use std::sync::{Arc, OnceLock};

use whatif_layers::StateDir;
use whatif_store::Store;
use whatif_store::sqlite::SqliteStore;

use self::chores::Chores;
use self::ledger::Ledger;
use crate::{Context, EngineError, Trouble};

/// Many threads may share one.
#[derive(Debug)]
pub struct Ground {
    pub(crate) context: Context,
    pub(crate) state: StateDir,
    pub(crate) store: Box<dyn Store>,
    pub(crate) chores: Arc<dyn Chores>,
    /// What recovery found.
    pub(crate) troubles: OnceLock<Vec<Trouble>>,
}

impl Ground {
    /// Opens the state directory, and repairs nothing.
    pub(crate) fn open(context: Context, chores: Arc<dyn Chores>) -> Result<Self, EngineError> {
        // A state directory made inside a sandbox would be one more change to review, and of no use: nothing can be started in it.
        if let Some(nested) = context.nesting().filter(|_| !matches!(StateDir::is_made(&context.state_dir), Ok(true))) {
            return Err(nested);
        }
        let state = StateDir::open(&context.state_dir)?;
        let store = Box::new(SqliteStore::at(state.database()).watched_by(Box::new(Ledger::of(&state))));
        Ok(Self { context, state, store, chores, troubles: OnceLock::new() })
    }
}
