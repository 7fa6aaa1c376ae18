//! From what a user types to a sandbox whose record is true.

use std::time::Duration;

use whatif_keeper::client::ClientError;
use whatif_layers::state_dir::{AliveLock, SandboxLock};
use whatif_store::{Found, StoreError};
use whatif_sys::patience;
use whatif_types::sandbox::StopReason;
use whatif_types::{Sandbox, Status, Template, experiment};

use crate::EngineError;
use crate::ground::Ground;
use crate::ground::ended::mark_stopped;
use crate::ground::keepers::instance_in;
use crate::ground::lifetime::{is_expired, last_words};

const SHORTEST_PREFIX: usize = 4;
/// How long a command waits for another one at the same sandbox.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often the holder of a lock tries again to write a record that another command has just written.
const MOST_CONFLICTS: usize = 5;

impl Ground {
    /// By name, by a unique prefix of the id, or the latest of this project.
    pub(crate) fn resolve(&self, name: Option<&str>) -> Result<Sandbox, EngineError> {
        let sandbox = match name {
            Some(name) => match self.store.find(name)? {
                // A few letters fit an id by accident.
                Found::One(sandbox) if sandbox.name != name && name.len() < SHORTEST_PREFIX => {
                    return Err(EngineError::NoSuchSandbox { name: name.escape_debug().to_string() });
                }
                Found::One(sandbox) => *sandbox,
                Found::None => return Err(EngineError::NoSuchSandbox { name: name.escape_debug().to_string() }),
                Found::Several(names) => return Err(EngineError::Ambiguous { prefix: name.to_owned(), names }),
            },
            None => {
                let project = self.caller.project_of(&self.caller.cwd)?;
                let mut all = self.store.list()?.into_iter();
                // Those of a race are named through the race: the latest of them may be the worst.
                let is_meant = |s: &Sandbox| {
                    s.project == project && s.status != Status::Rejected && !s.details.labels.contains_key(experiment::LABEL)
                };
                all.find(is_meant).ok_or(EngineError::NoSandboxHere { project })?
            }
        };
        self.refreshed(sandbox)
    }

    /// The record as it is now, for a caller that has just taken the lock and will notice by itself whether it is alive.
    pub(crate) fn reread(&self, sandbox: &Sandbox) -> Result<Sandbox, EngineError> {
        self.store.get(&sandbox.id)?.ok_or_else(|| EngineError::NoSuchSandbox { name: sandbox.name.clone() })
    }

    /// The record as it is now, for a caller that holds the lock. An active sandbox whose keeper is gone is noted as stopped.
    pub(crate) fn refresh(&self, sandbox: &Sandbox) -> Result<Sandbox, EngineError> {
        let now = self.reread(sandbox)?;
        if now.status != Status::Active || self.is_alive(&now)? {
            return Ok(now);
        }
        let mut stopped = self.as_stopped(now)?;
        self.unbind(&stopped);
        self.state.unpublish(&stopped.name);
        self.record(&mut stopped)?;
        Ok(stopped)
    }

    /// The same for a command that only looks. A sandbox recorded as active whose keeper is gone (killed, or the machine restarted)
    /// is stopped; if another command holds its lock, that one writes the record.
    pub(crate) fn refreshed(&self, sandbox: Sandbox) -> Result<Sandbox, EngineError> {
        crate::ground::removed::note_subject(&sandbox);
        if sandbox.status != Status::Active || self.is_alive(&sandbox)? {
            return Ok(sandbox);
        }
        let lock = self.state.find(&sandbox.id)?.map(|directory| SandboxLock::take(&directory)).transpose()?.flatten();
        match lock.map(|_lock| self.refresh(&sandbox)) {
            // It can be looked at and removed all the same.
            None | Some(Err(EngineError::Store(StoreError::Full))) => self.as_stopped(self.reread(&sandbox)?),
            Some(refreshed) => refreshed,
        }
    }

    /// The record of an active sandbox without a keeper as it will be. One that changed since it was found so is left as it is.
    fn as_stopped(&self, mut sandbox: Sandbox) -> Result<Sandbox, EngineError> {
        if sandbox.status != Status::Active {
            return Ok(sandbox);
        }
        let reason = match self.state.find(&sandbox.id)?.map_or(StopReason::Lost, |directory| last_words(&directory)) {
            // One that was given a time only after it had begun has nowhere to say so.
            StopReason::Lost if is_expired(&sandbox)? => StopReason::Expired,
            said => said,
        };
        mark_stopped(&mut sandbox, reason);
        if let Ok(summary) = self.summarize(&sandbox) {
            sandbox.details.changed_files = summary.changed_files;
            sandbox.details.size_bytes = summary.size_bytes;
        }
        Ok(sandbox)
    }

    /// Writes the record of a sandbox whose lock the caller holds. What the holder knows counts, even if a command that does not
    /// need the lock (the recovery of an apply, or a whatif of an earlier version) wrote to the record meanwhile.
    pub(crate) fn record(&self, sandbox: &mut Sandbox) -> Result<(), EngineError> {
        for _ in 0..MOST_CONFLICTS {
            match self.store.update(sandbox) {
                Err(StoreError::Conflict { .. }) => sandbox.version = self.reread(sandbox)?.version,
                other => return Ok(other?),
            }
        }
        Ok(self.store.update(sandbox)?)
    }

    pub(crate) fn is_alive(&self, sandbox: &Sandbox) -> Result<bool, EngineError> {
        let Some(directory) = self.state.find(&sandbox.id)? else { return Ok(false) };
        match instance_in(sandbox, &directory)?.connect() {
            Ok(_) => Ok(true),
            // Its socket may be lost while it lives.
            Err(ClientError::NotRunning) => Ok(AliveLock::is_held(&directory)?),
            // It lives, and is busy or held; whoever needs it will be told.
            Err(ClientError::NoAnswer) => Ok(true),
            Err(error) => Err(error.into()),
        }
    }

    /// The right to change a sandbox, waiting a while for whoever has it. A move or a rebase that was interrupted is at its
    /// end then.
    pub(crate) fn lock(&self, sandbox: &Sandbox) -> Result<SandboxLock, EngineError> {
        let lock = self.lock_as_it_is(sandbox)?;
        self.recover_shift(&self.state.shift_note(&sandbox.id), &lock)?;
        self.recover_rebase(sandbox, &lock)?;
        Ok(lock)
    }

    /// The same for those who only end things, which must be possible whatever state they are in.
    pub(crate) fn lock_as_it_is(&self, sandbox: &Sandbox) -> Result<SandboxLock, EngineError> {
        let take = || -> Result<_, EngineError> { Ok(SandboxLock::take(&self.directory(sandbox)?)?) };
        patience::try_until(PATIENCE, take)?.ok_or_else(|| EngineError::Busy { name: sandbox.name.clone() })
    }

    pub fn template(&self, name: &str) -> Result<Template, EngineError> {
        self.store.get_template(name)?.ok_or_else(|| EngineError::NoSuchTemplate { name: name.escape_debug().to_string() })
    }
}
