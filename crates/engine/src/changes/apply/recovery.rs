//! Finishes an apply that was interrupted, in one direction or the other.

use std::path::Path;

use whatif_apply::{ApplyError, Outcome, Plan, RecordedOperation, Turn};
use whatif_layers::remove;
use whatif_layers::state_dir::{SandboxLock, is_empty};
use whatif_types::explain::whole_message;

use super::{After, Left};
use crate::changes::Changes;
use crate::{EngineError, Trouble};

impl Changes {
    /// Finishes an apply that was interrupted, in one direction or the other, and says what there is to say about it.
    pub(crate) fn recover_apply(&self, directory: &Path) -> Vec<Trouble> {
        // Held: it is under way.
        match SandboxLock::take(directory) {
            Ok(Some(_lock)) => self.recover_locked(directory, None),
            Ok(None) => Vec::new(),
            Err(error) => vec![Trouble::note(format!(
                "an interrupted apply cannot be finished now: {}",
                whole_message(&EngineError::from(error))
            ))],
        }
    }

    /// The same by a caller that has the apply's lock, and perhaps that of its tree.
    pub(crate) fn recover_locked(&self, directory: &Path, turn: Option<&Turn>) -> Vec<Trouble> {
        let mut notes = Vec::new();
        let mut decide = || self.decide_unfinished(directory, &mut notes);
        let recovered = match whatif_apply::recover_in(directory, turn, &mut decide) {
            Ok(recovered) => recovered,
            // The other one will see to it.
            Err(ApplyError::Busy { .. }) => return Vec::new(),
            Err(error) => return vec![Trouble::unfinished(directory, &error)],
        };
        let word = match recovered.outcome {
            Outcome::RolledBack => "taken back",
            Outcome::RolledForward => "finished",
            Outcome::WasDone | Outcome::Nothing => "",
        };
        let filed = match recovered.outcome {
            Outcome::RolledBack | Outcome::Nothing => self.file_rollback(directory),
            Outcome::RolledForward | Outcome::WasDone => self.file_recovered(directory),
        };
        let mut troubles: Vec<Trouble> = notes.into_iter().map(Trouble::note).collect();
        if !word.is_empty() {
            let what = if recovered.about["undo_of"].is_string() { "undo" } else { "apply" };
            troubles.push(Trouble::note(format!("an interrupted {what} was {word}")));
        }
        troubles.extend(recovered.reported.iter().map(|(path, what)| Trouble::note(format!("{}: {what}", path.display()))));
        if let Err(error) = filed {
            troubles.push(Trouble::damage(directory, &error));
        }
        troubles
    }

    fn file_recovered(&self, directory: &Path) -> Result<(), EngineError> {
        let (plan, after) = plan_of(directory)?;
        self.finish_apply(directory, &plan, &after, Left::Look).map(|_| ())
    }

    fn file_rollback(&self, directory: &Path) -> Result<(), EngineError> {
        // Without a journal nothing was begun.
        if whatif_apply::begun_in(directory)?.is_some() {
            let (plan, _) = plan_of(directory)?;
            self.bases_after_rollback(&plan)?;
            if let Ok(about) = serde_json::from_value(plan.about) {
                self.settle_sandbox(&about, Left::Look)?;
            }
        }
        self.release_commit_of(directory)?;
        self.clear_rolled_back(directory)
    }

    /// Removes what is left of an apply that did not happen, but for versions of files that could not be put anywhere.
    pub(crate) fn clear_rolled_back(&self, directory: &Path) -> Result<(), EngineError> {
        let has_files = |part: &str| !is_empty(&directory.join(part));
        if has_files("old") || has_files("unapplied") {
            return Ok(self.ground.state.set_aside(directory)?);
        }
        Ok(remove::tree(directory)?)
    }
}

/// The plan of an apply and what it put where, from its journal.
fn plan_of(directory: &Path) -> Result<(Plan, Vec<After>), EngineError> {
    let record = whatif_apply::read(directory)?;
    let after = |o: &RecordedOperation| After { identity: o.after.clone(), hash: o.hash };
    let (after, operations) = record.operations.into_iter().map(|o| (after(&o), o.operation)).unzip();
    Ok((Plan { roots: record.roots, operations, about: record.about }, after))
}
