//! A run of which the records learn only if it lasts.
//!
//! Most runs are over in a moment and leave nothing. To record such a one and to delete its record would take longer than anything else
//! about it. Until then its record lies in its own directory, where whoever repairs what a crash left finds it.

use std::path::Path;
use std::time::Duration;

use whatif_layers::StateDir;
use whatif_layers::remove;
use whatif_layers::state_dir::{Kept, SandboxLock};
use whatif_provider::Instance;
use whatif_store::{Store, StoreError};
use whatif_types::Sandbox;
use whatif_types::sandbox::note;

use crate::EngineError;
use crate::ground::GroundError;
use crate::ground::keepers::instance_in;
use crate::ground::written_down::noted;
use crate::lifecycle::Lifecycle;
use crate::lifecycle::create::{NewSandbox, Validated, with_a_name};
use crate::lifecycle::exec::Running;
use crate::lifecycle::shelf::is_plain;

/// After so long others may want to find it.
pub(super) const LASTING: Duration = Duration::from_millis(20);

/// When the records learn of a sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Recorded {
    #[default]
    AtOnce,
    /// When its command has run for a moment, wants something, or leaves something.
    WhenItLasts,
}

impl Recorded {
    /// Of a run. Whoever gave a name is told at once if it is taken, and what has limits or is served from outside leaves more than a
    /// directory. Nothing begins over records that may be of no use to it in the end.
    pub(super) fn of_run(new: &NewSandbox, validated: &Validated, records: &dyn Store) -> Self {
        let is_usual = is_plain(new) && new.name.is_none() && new.idempotency_key.is_none();
        let is_free = validated.limits.is_unlimited() && validated.config.disk.keep_free.is_none();
        if is_usual && is_free && records.is_at_ease() { Self::WhenItLasts } else { Self::AtOnce }
    }
}

impl Lifecycle {
    /// Where it is found after a crash.
    pub(super) fn jot_down(&self, sandbox: &Sandbox, directory: &Path) -> Result<(), EngineError> {
        let failed = |e: serde_json::Error| EngineError::io("describe", directory, e.into());
        Ok(StateDir::write_note(directory, &note::write(sandbox).map_err(failed)?)?)
    }

    /// The records learn of it, if they have not.
    pub(super) fn record_run(&self, running: &mut Running) -> Result<(), EngineError> {
        if running.recorded == Recorded::WhenItLasts {
            running.sandbox = self.recorded(&running.sandbox)?;
            running.recorded = Recorded::AtOnce;
        }
        Ok(())
    }

    /// The records learn of a sandbox whose name was made up. It may be taken by now; then it gets another one.
    pub(crate) fn recorded(&self, sandbox: &Sandbox) -> Result<Sandbox, EngineError> {
        let insert = |sandbox: Sandbox| Ok(self.ground.store.insert(&sandbox, None).map(|_| sandbox)?);
        match insert(sandbox.clone()) {
            Err(EngineError::Ground(GroundError::Store(StoreError::NameTaken { .. }))) => {
                with_a_name(None, |name| insert(Sandbox { name: name.to_owned(), ..sandbox.clone() }))
            }
            other => other,
        }
    }

    /// Ends a run that nobody keeps. The directory of one that no record knows and that has changed nothing is for another run, once
    /// its keeper has let go of it.
    pub(super) fn put_out_of_the_way(
        &self,
        running: Running,
        lock: SandboxLock,
        instance: &dyn Instance,
    ) -> Result<(), EngineError> {
        let Running { sandbox, recorded, .. } = running;
        if recorded == Recorded::AtOnce || !self.ground.heads_are_empty(&sandbox)? {
            return self.discard(sandbox, lock, instance);
        }
        instance.kill();
        self.ground.state.disown(&sandbox.id);
        self.ground.state.spend(&sandbox.id)?;
        drop(lock);
        Ok(())
    }

    /// Makes spare directories of those, as long as there is time. What cannot be done now is done another time.
    pub(crate) fn recycle_spent(&self, has_time: &dyn Fn() -> bool) {
        for (id, directory) in self.ground.state.spent() {
            if !has_time() {
                return;
            }
            let Ok(Some(_lock)) = SandboxLock::take(&directory) else { continue };
            let keeper = noted(&directory).ok().flatten().filter(|sandbox| sandbox.id == id);
            let is_gone = keeper
                .is_none_or(|sandbox| instance_in(&sandbox, &directory).is_ok_and(|instance| instance.wait(Some(Duration::ZERO))));
            if is_gone && self.ground.state.recycle_in_time(&directory, has_time) == Kept::Useless {
                let _ = remove::tree(&directory);
            }
        }
    }
}
