//! One apply at a time in a tree: the others wait, and what a killed one left there is finished first.

use std::path::{Path, PathBuf};
use std::time::Duration;

use whatif_apply::{ApplyError, Progress, Stage};
use whatif_layers::state_dir::{SandboxLock, Unsettled};
use whatif_sys::{absence, patience};
use whatif_types::Sandbox;

use crate::EngineError;
use crate::changes::apply::{Watch, root_of};
use crate::changes::{Changes, ChangesError};

/// How long an apply waits for others in the same tree.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a process that has just given the tree up may take to end.
const LAST_MOMENTS: Duration = Duration::from_secs(2);

/// The right to change a tree, until it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    pub lock: whatif_apply::Turn,
    /// What recovery has to tell.
    pub notes: Vec<String>,
}

impl Changes {
    /// For a plan that is made and carried out without asking anybody in between: no other apply can overtake it.
    pub(crate) fn take_turn_in_project(&self, sandbox: &Sandbox, watch: &mut Watch<'_>) -> Result<Option<Turn>, EngineError> {
        match self.take_turn(&[root_of(&sandbox.project, sandbox).to_owned()], watch) {
            // There is no such directory. What that means is found when the plan is made.
            Err(EngineError::Changes(ChangesError::Apply(ApplyError::Problems(_)))) => Ok(None),
            other => other.map(Some),
        }
    }

    pub(crate) fn take_turn(&self, roots: &[PathBuf], watch: &mut Watch<'_>) -> Result<Turn, EngineError> {
        let mut goes_on = || {
            (watch.progress)(Progress { stage: Stage::Waiting, done: 0, total: 0 });
            !(watch.is_cancelled)()
        };
        let lock = whatif_apply::Turn::wait(roots, PATIENCE, &mut goes_on)?;
        let notes = self.recover_in_turn(&lock)?;
        Ok(Turn { lock, notes })
    }

    /// The apply that was waited for may have been killed. Nothing is planned or done on top of what it left.
    fn recover_in_turn(&self, lock: &whatif_apply::Turn) -> Result<Vec<String>, EngineError> {
        let mut notes = Vec::new();
        for unsettled in self.ground.state.unsettled()? {
            let Unsettled::Apply(directory) = unsettled else { continue };
            match whatif_apply::begun_in(&directory) {
                Ok(Some(roots)) if lock.covers_any(&roots)? => {}
                // Not begun, or elsewhere; a damaged journal was found when the command began.
                Ok(_) | Err(ApplyError::Journal { .. }) => continue,
                // Whether something unfinished lies in the tree is not known.
                Err(error) => return Err(error.into()),
            }
            let _apply_lock = match await_lock(&directory)? {
                Awaited::Lock(lock) => lock,
                Awaited::Gone => continue,
                Awaited::Nothing => return Err(ApplyError::Busy { root: directory }.into()),
            };
            for trouble in self.recover_locked(&directory, Some(lock)) {
                if trouble.is_damage {
                    return Err(ChangesError::Unfinished { message: trouble.message }.into());
                }
                notes.push(trouble.message.to_string());
            }
        }
        Ok(notes)
    }
}

enum Awaited {
    Lock(SandboxLock),
    /// It has come to its end and was filed.
    Gone,
    Nothing,
}

/// Whoever has the tree's lock is the only one at work in it, so the lock of an apply in it is given up soon.
fn await_lock(directory: &Path) -> Result<Awaited, EngineError> {
    let look = || -> Result<_, EngineError> {
        if let Some(lock) = SandboxLock::take(directory)? {
            return Ok(Some(Awaited::Lock(lock)));
        }
        let is_there = absence::exists(directory).map_err(|e| EngineError::io("examine", directory, e))?;
        Ok((!is_there).then_some(Awaited::Gone))
    };
    Ok(patience::try_until(LAST_MOMENTS, look)?.unwrap_or(Awaited::Nothing))
}
