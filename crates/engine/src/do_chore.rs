//! Does what is due.

use crate::chores::Chore;
use crate::stack::Unknown;
use crate::{Engine, EngineError};

impl Engine {
    /// Does one, now.
    pub fn do_chore(&self, chore: &Chore) -> Result<(), EngineError> {
        match chore {
            Chore::Squash(name) => self.squash_due(name).map(drop)?,
            Chore::RemoveLayers => {
                self.remove_unneeded_layers(Unknown::Keep)?;
                self.clear_race_locks();
            }
            Chore::FillPool => self.fill_pool()?,
            Chore::Attend(sandbox) => self.supervise_when_wanted(sandbox)?,
            Chore::Tidy => self.store.tidy()?,
        }
        Ok(())
    }

    /// At the end of a call, or when a client leaves.
    pub fn tidy_if_due(&self) {
        if self.store.wants_tidying() {
            self.chores.start(Chore::Tidy);
        }
    }
}
