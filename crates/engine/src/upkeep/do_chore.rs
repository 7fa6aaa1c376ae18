//! Does what is due.

use crate::EngineError;
use crate::ground::chores::Chore;
use crate::ground::stack::Unknown;
use crate::upkeep::Upkeep;

impl Upkeep {
    /// Does one, now.
    pub fn do_chore(&self, chore: &Chore) -> Result<(), EngineError> {
        match chore {
            Chore::Squash(name) => self.ground.squash_due(&name.as_str().into()).map(drop)?,
            Chore::RemoveLayers => {
                self.ground.remove_unneeded_layers(Unknown::Keep)?;
                self.clear_race_locks();
            }
            Chore::FillPool => {
                // Who claims from a pool makes no use of the directories of earlier runs.
                self.lifecycle.recycle_spent(&|| true);
                self.fill_pool()?;
            }
            Chore::Attend(sandbox) => self.network.supervise_when_wanted(sandbox)?,
            Chore::Collect => self.collect_in_passing()?,
            Chore::Tidy => {
                self.lifecycle.recycle_spent(&|| true);
                self.ground.record_events()?;
                self.ground.drop_old_events()?;
                self.ground.store.tidy()?;
            }
        }
        Ok(())
    }

    /// At the end of a call, or when a client leaves.
    pub fn tidy_if_due(&self) {
        if self.ground.store.wants_tidying() {
            self.ground.chores.start(Chore::Tidy);
        }
        self.collect_if_due();
    }
}
