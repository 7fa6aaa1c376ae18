//! What fails because another command removed the sandbox meanwhile is told as that. How it failed (a directory that is not there, a
//! keeper that does not answer) says nothing to anybody.

use std::cell::RefCell;
use std::time::Duration;

use whatif_layers::state_dir::SandboxLock;
use whatif_store::{Claim, Key};
use whatif_sys::patience;
use whatif_types::explain::shortage;
use whatif_types::{Sandbox, SandboxId};

use crate::ground::{Ground, GroundError};
use crate::{EngineError, now};

/// How long it is waited for a command that may be removing the sandbox, and how often it is looked.
const PATIENCE: Duration = Duration::from_secs(2);

/// For so long it is known that a sandbox was removed on request, in milliseconds.
const REMEMBERED: u64 = 7 * 86_400_000;
/// Writing it down takes less, in milliseconds.
const CLAIMED: u64 = 10_000;

thread_local! {
    /// The sandbox that the call on this thread was last found to be about.
    static SUBJECT: RefCell<Option<(SandboxId, String)>> = const { RefCell::new(None) };
}

pub(crate) fn note_subject(sandbox: &Sandbox) {
    SUBJECT.with_borrow_mut(|subject| *subject = Some((sandbox.id.clone(), sandbox.name.clone())));
}

fn subject() -> Option<(SandboxId, String)> {
    SUBJECT.with_borrow(Clone::clone)
}

impl Ground {
    /// One call of a client. An error is told as the removal of its sandbox, if that explains it.
    pub fn call<T>(&self, work: impl FnOnce() -> Result<T, EngineError>) -> Result<T, EngineError> {
        // What an earlier call on this thread was about explains nothing.
        SUBJECT.take();
        work().map_err(|error| self.explain_removal(error))
    }

    fn explain_removal(&self, error: EngineError) -> EngineError {
        error.with_cause(|cause| self.explain_removal(cause)).unwrap_or_else(|error| self.explain_one(error))
    }

    fn explain_one(&self, error: EngineError) -> EngineError {
        match error {
            // Of a command about several, another one than the last may have failed.
            EngineError::Ground(GroundError::Busy { ref name } | GroundError::Stopped { ref name })
                if subject().is_none_or(|(_, known)| known != *name) =>
            {
                error
            }
            // What the machine lacks, and what a person has to decide, has other causes.
            error if error.is_of_what_is_there() && shortage(&error).is_none() => {
                if let (EngineError::Ground(GroundError::Keeper(_)), Some((id, _))) = (&error, subject()) {
                    self.await_other_command(&id);
                }
                self.removed_subject().map_or(error, removed)
            }
            error if error.is_of_transaction() => self.missing_project().unwrap_or(error),
            // It was there a moment ago.
            EngineError::Ground(GroundError::NoSuchSandbox { name })
                if self.removed_subject().is_some_and(|known| known == name) =>
            {
                removed(name)
            }
            error => error,
        }
    }

    /// A command that removes a sandbox ends its keeper first, and has the lock until the record is gone.
    pub(crate) fn await_other_command(&self, id: &SandboxId) {
        let is_at_work = || {
            let directory = self.state.find(id).ok().flatten();
            directory.is_some_and(|d| matches!(SandboxLock::take(&d), Ok(None))) && !self.state.is_being_deleted(id)
        };
        patience::until(PATIENCE, || (!is_at_work()).then_some(()));
    }

    /// Notes that a sandbox was removed on request, so that whoever asks for it again learns that it is done. Without the note they
    /// learn that there is no such sandbox, so nothing depends on it.
    pub(crate) fn remember_removal(&self, sandbox: &Sandbox) {
        for word in [sandbox.name.as_str(), sandbox.id.as_str()] {
            let (key, at) = (removal(word), now());
            if let Ok(Claim::Fresh) = self.store.claim(&key, at) {
                let _ = self.store.settle(&key, "removed", at + REMEMBERED);
            }
        }
    }

    /// Whether a sandbox of this name or id was removed on request, not long ago.
    pub(crate) fn was_removed(&self, word: &str) -> Result<bool, EngineError> {
        let key = removal(word);
        match self.store.claim(&key, now())? {
            Claim::Done(_) => Ok(true),
            Claim::Running => Ok(false),
            Claim::Fresh => {
                self.store.give_up(&key)?;
                Ok(false)
            }
        }
    }

    fn missing_project(&self) -> Option<EngineError> {
        let (id, _) = subject()?;
        let sandbox = self.store.get(&id).ok()??;
        self.require_project(&sandbox).err()
    }

    /// The name of the sandbox that the call is about, if that is removed or about to be.
    fn removed_subject(&self) -> Option<String> {
        let (id, name) = subject()?;
        let is_removed = matches!(self.store.get(&id), Ok(None)) || self.state.is_being_deleted(&id);
        is_removed.then_some(name)
    }
}

fn removal(word: &str) -> Key<'_> {
    Key { scope: "removed", key: word, verb: "rm", request: "", until: now() + CLAIMED }
}

fn removed(name: String) -> EngineError {
    GroundError::Removed { name, has_run: false }.into()
}
