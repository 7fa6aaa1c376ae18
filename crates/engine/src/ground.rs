//! What every part stands on: the records, the state directory, who asks, and the sandboxes themselves — found, locked, looked at,
//! held still, counted.

pub(crate) mod allotment;
pub(crate) mod changed;
pub mod chores;
pub(crate) mod ended;
pub(crate) mod error;
pub mod events;
pub mod intact;
pub(crate) mod keepers;
pub(crate) mod label;
pub(crate) mod ledger;
pub(crate) mod lifetime;
pub mod limits;
pub mod lineage;
pub mod once;
pub(crate) mod pause;
pub(crate) mod reach;
mod rejected;
pub(crate) mod removals;
pub(crate) mod removed;
pub(crate) mod resolve;
pub(crate) mod retention;
pub mod stack;
pub(crate) mod still;
pub(crate) mod stray_heads;
pub mod token_files;
mod tops;
pub(crate) mod unfinished;
pub(crate) mod unmarked;
pub mod usage;
pub(crate) mod viewed;
pub(crate) mod written_down;

use std::path::Path;
use std::sync::{Arc, OnceLock};

use whatif_layers::StateDir;
use whatif_store::Store;
use whatif_store::sqlite::SqliteStore;
use whatif_types::SandboxId;

use self::chores::Chores;
pub use self::error::GroundError;
use self::ledger::Ledger;
use crate::{Caller, EngineError, Trouble};

/// Many threads may share one, and what it has of the state serves many callers.
#[derive(Debug)]
pub struct Ground {
    /// Who asks.
    pub(crate) caller: Caller,
    pub(crate) state: StateDir,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) chores: Arc<dyn Chores>,
    /// What recovery found.
    pub(crate) troubles: Arc<OnceLock<Vec<Trouble>>>,
}

impl Ground {
    /// Opens the state directory, and repairs nothing.
    pub(crate) fn open(state_dir: &Path, caller: Caller, chores: Arc<dyn Chores>) -> Result<Self, EngineError> {
        // A state directory made inside a sandbox would be one more change to review, and of no use: nothing can be started in it.
        if let Some(outer) = caller.nesting().filter(|_| !matches!(StateDir::is_made(state_dir), Ok(true))) {
            return Err(GroundError::Nested { outer }.into());
        }
        let state = StateDir::open(state_dir)?;
        let caller = token_files::masked_for(caller, &state)?;
        let store = Arc::new(SqliteStore::at(state.database()).watched_by(Box::new(Ledger::of(&state))));
        Ok(Self { caller, state, store, chores, troubles: Arc::default() })
    }

    /// Whether the records answer: they are asked for a sandbox that cannot be.
    pub fn check_records(&self) -> Result<(), EngineError> {
        Ok(self.store.get(&SandboxId::from_random([0; 12])).map(drop)?)
    }

    /// The same state for somebody else.
    pub(crate) fn asked_by(&self, mut caller: Caller) -> Self {
        let Self { caller: own, state, store, chores, troubles } = self;
        caller.config.files.own_credentials.clone_from(&own.config.files.own_credentials);
        Self { caller, state: state.clone(), store: store.clone(), chores: chores.clone(), troubles: troubles.clone() }
    }
}
