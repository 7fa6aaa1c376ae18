//! Repairs what a crash left. Runs at the start of every command; with nothing to repair it costs one look at an empty directory.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use whatif_apply::{ApplyError, Outcome, Plan, RecordedOperation, Turn};
use whatif_keeper::Client;
use whatif_layers::remove;
use whatif_layers::state_dir::{AliveLock, SandboxLock, Unsettled, is_empty};
use whatif_types::explain::whole_message;
use whatif_types::remedy::Sentence;
use whatif_types::sandbox::StopReason;
use whatif_types::{Explain, SandboxId, Status};

use crate::apply::{After, Left};
use crate::stop::mark_stopped;
use crate::{Engine, EngineError};

/// How long a keeper may take to end.
const LAST_MOMENTS: Duration = Duration::from_secs(5);

impl Engine {
    /// Repairs what a crash left, and tells what there is to tell about it. Whoever opens the state does that, before anything else.
    pub fn recover(&self) -> Result<&[Trouble], EngineError> {
        let found = self.recover_all()?;
        Ok(self.troubles.get_or_init(|| found))
    }

    fn recover_all(&self) -> Result<Vec<Trouble>, EngineError> {
        let mut troubles = Vec::new();
        for unsettled in self.state.unsettled()? {
            // What cannot be repaired now must not keep the command from its own work; the next one tries again, and `gc` tells.
            match unsettled {
                Unsettled::Sandbox(id) => {
                    // Held: its owner is alive and at work on it.
                    let Some(lock) = self.state.inherit(&id)? else { continue };
                    let _ = self.repair(&id, lock);
                }
                Unsettled::Apply(directory) => troubles.extend(self.recover_apply(&directory)),
                Unsettled::Shift { note, sandbox } => {
                    if let Err(error) = self.recover_shift_if_free(&note, &sandbox) {
                        troubles
                            .push(Trouble::note(format!("an interrupted snapshot cannot be finished: {}", whole_message(&error))));
                    }
                }
                Unsettled::Layers(directory) => {
                    if let Ok(Some(_lock)) = SandboxLock::take(&directory) {
                        let _ = remove::tree(&directory);
                    }
                }
            }
        }
        Ok(troubles)
    }

    /// Finishes an apply that was interrupted, in one direction or the other, and says what there is to say about it.
    fn recover_apply(&self, directory: &Path) -> Vec<Trouble> {
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
            return Ok(self.state.set_aside(directory)?);
        }
        Ok(remove::tree(directory)?)
    }

    fn repair(&self, id: &SandboxId, _lock: SandboxLock) -> Result<(), EngineError> {
        let path = self.state.transient().join(id.as_str());
        match self.store.get(id)? {
            // Commands run only once there is a record, so this one was lost. `gc` names the sandbox.
            None if self.state.was_being_made(id) && !self.state.is_filled(id)? && holds_work(&path) => {
                self.state.settle(id)?;
                Ok(())
            }
            // Half made, or half deleted.
            None => self.clear_away(id),
            // Its row says it is kept; only the move was missing. (An interrupted `rm` ends up here too: it did not happen.)
            Some(sandbox) if !sandbox.details.transient => {
                self.state.settle(&sandbox.id)?;
                Ok(())
            }
            // Made for checks, or by a race that was killed: it begins anew.
            Some(sandbox) if sandbox.details.disposable => self.clear_away(id),
            // A `run` that was killed: decide in its place.
            Some(mut sandbox) => {
                end_keeper_in(&path);
                self.unbind_in(&sandbox, &path);
                // Its command may have begun before the record says so. A head that was only copied is nobody's work.
                if sandbox.status == Status::Creating && !holds_work(&path) {
                    return self.clear_away(id);
                }
                let summary = self.summarize(&sandbox)?;
                if !summary.matters {
                    return self.clear_away(id);
                }
                mark_stopped(&mut sandbox, StopReason::Lost);
                sandbox.details.transient = false;
                sandbox.details.changed_files = summary.changed_files;
                sandbox.details.size_bytes = summary.size_bytes;
                self.store.update(&mut sandbox)?;
                self.state.settle(&sandbox.id)?;
                Ok(())
            }
        }
    }

    fn clear_away(&self, id: &SandboxId) -> Result<(), EngineError> {
        let path = self.state.transient().join(id.as_str());
        end_keeper_in(&path);
        self.remove_group(id);
        // First: without a record and half deleted, it would pass for one whose record was lost.
        self.state.disown(id);
        self.store.delete(id)?;
        self.store.flush()?;
        Ok(remove::tree(&path)?)
    }
}

/// Whether anything was written in a sandbox: to a head that was copied, since; or there is something in one that was mounted, which
/// its work directory shows. What cannot be looked at may be some.
fn holds_work(sandbox: &Path) -> bool {
    let work = sandbox.join("work");
    let is_written = |root: std::fs::DirEntry| match whatif_layers::copy::is_written(&root.path()) {
        Ok(Some(is_written)) => is_written,
        Ok(None) => !is_empty(&root.path()) && !is_empty(&work.join(root.file_name())),
        Err(_) => true,
    };
    match std::fs::read_dir(sandbox.join("head")) {
        Ok(mut roots) => roots.any(|root| root.map_or(true, is_written)),
        Err(error) => error.kind() != std::io::ErrorKind::NotFound,
    }
}

/// The plan of an apply and what it put where, from its journal.
fn plan_of(directory: &Path) -> Result<(Plan, Vec<After>), EngineError> {
    let record = whatif_apply::read(directory)?;
    let after = |o: &RecordedOperation| After { identity: o.after.clone(), hash: o.hash };
    let (after, operations) = record.operations.into_iter().map(|o| (after(&o), o.operation)).unzip();
    Ok((Plan { roots: record.roots, operations, about: record.about }, after))
}

/// Something about a crash that a person has to know.
#[derive(Clone, Debug)]
pub struct Trouble {
    pub message: Sentence,
    /// It could not be repaired, and stands in the way of other applies.
    pub is_damage: bool,
    /// Where, if that is known.
    pub root: Option<PathBuf>,
}

impl Trouble {
    fn note(message: String) -> Self {
        Self { message: message.into(), is_damage: false, root: None }
    }

    fn unfinished(directory: &Path, error: &ApplyError) -> Self {
        let root = if let ApplyError::RootGone { root, .. } = error { Some(root.clone()) } else { None };
        Self { root, ..Self::damage(directory, error) }
    }

    fn damage(directory: &Path, error: &dyn Explain) -> Self {
        let mut message = Sentence::from(format!("an interrupted apply cannot be repaired: {}", whole_message(error)));
        for remedy in error.remedies() {
            message = message.and("; ".into()).and(remedy);
        }
        if !message.to_string().contains("move") {
            message = message.and(format!("; to give it up, move {} away", directory.display()).into());
        }
        Self { message, is_damage: true, root: None }
    }
}

/// Ends whatever keeper still serves this directory, and waits until it is gone.
pub(crate) fn end_keeper_in(directory: &std::path::Path) {
    if let Ok(mut client) = Client::connect(directory) {
        let _ = rustix::net::sockopt::set_socket_timeout(client.as_fd(), rustix::net::sockopt::Timeout::Recv, Some(LAST_MOMENTS));
        let _ = client.stop(0);
    }
    // One that takes nobody in any more may still be there.
    await_end(directory);
}

/// Waits for a keeper that is about to end. False: it is still there.
pub(crate) fn await_end(directory: &std::path::Path) -> bool {
    let deadline = Instant::now() + LAST_MOMENTS;
    // One that cannot be asked about may live.
    while AliveLock::is_held(directory).unwrap_or(true) {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(LAST_MOMENTS / 10_000);
    }
    true
}
