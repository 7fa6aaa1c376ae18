//! From what is asked for to a sandbox whose record is true.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use whatif_keeper::client::ClientError;
use whatif_layers::StateDir;
use whatif_layers::state_dir::{AliveLock, SandboxLock};
use whatif_store::{Found, StoreError};
use whatif_sys::patience;
use whatif_types::limits::Then;
use whatif_types::sandbox::StopReason;
use whatif_types::{Sandbox, Selector, Status, Template, experiment};

use crate::EngineError;
use crate::ground::chores::Chore;
use crate::ground::ended::mark_stopped;
use crate::ground::keepers::instance_in;
use crate::ground::lifetime::{is_expired, last_words};
use crate::ground::{Ground, GroundError};

const SHORTEST_PREFIX: usize = 4;
/// How long a command waits for another one at the same sandbox.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often the holder of a lock tries again to write a record that another command has just written.
const MOST_CONFLICTS: usize = 5;

impl Ground {
    /// The sandbox that is meant.
    pub(crate) fn resolve(&self, which: &Selector) -> Result<Sandbox, EngineError> {
        let sandbox = match which {
            Selector::Id(id) => self.store.get(id)?.ok_or_else(|| GroundError::NoSuchSandbox { name: id.to_string() })?,
            Selector::Word(word) => self.find(word)?,
            Selector::LatestOf(project) => self.latest_of(project)?,
        };
        self.refreshed(sandbox)
    }

    /// The same for a command that works with it, and not just tells of it.
    pub(crate) fn resolve_to_use(&self, which: &Selector) -> Result<Sandbox, EngineError> {
        let sandbox = self.resolve(which)?;
        self.mark_used(&sandbox);
        Ok(sandbox)
    }

    /// From now on it is the latest of its project.
    pub(crate) fn mark_used(&self, sandbox: &Sandbox) {
        if let Ok(Some(directory)) = self.state.find(&sandbox.id) {
            StateDir::mark_used(&directory);
        }
    }

    /// The sandbox of a project that was used last, or made last if none was used since.
    pub fn latest_of(&self, project: &Path) -> Result<Sandbox, EngineError> {
        // Those of a race are named through the race: the latest of them may be the worst.
        let is_meant =
            |s: &Sandbox| s.project == project && s.status != Status::Rejected && !s.details.labels.contains_key(experiment::LABEL);
        let mut latest: Option<(SystemTime, Sandbox)> = None;
        for sandbox in self.store.list()?.into_iter().filter(is_meant) {
            let used = self.used_at(&sandbox)?;
            // The newest come first.
            if latest.as_ref().is_none_or(|(before, _)| used > *before) {
                latest = Some((used, sandbox));
            }
        }
        let none = || GroundError::NoSandboxHere { project: project.to_owned() };
        Ok(latest.map(|(_, sandbox)| sandbox).ok_or_else(none)?)
    }

    fn used_at(&self, sandbox: &Sandbox) -> Result<SystemTime, EngineError> {
        let made = UNIX_EPOCH + Duration::from_millis(sandbox.created_at);
        let directory = self.state.find(&sandbox.id)?;
        let used = directory.map(|directory| StateDir::last_used(&directory)).transpose()?.flatten();
        Ok(used.map_or(made, |used| used.max(made)))
    }

    /// By name, or by a unique prefix of the id.
    fn find(&self, word: &str) -> Result<Sandbox, EngineError> {
        let unknown = || EngineError::from(GroundError::NoSuchSandbox { name: word.escape_debug().to_string() });
        match self.store.find(word)? {
            // A few letters fit an id by accident.
            Found::One(sandbox) if sandbox.name != word && word.len() < SHORTEST_PREFIX => Err(unknown()),
            Found::One(sandbox) => Ok(*sandbox),
            Found::None => Err(unknown()),
            Found::Several(names) => Err(GroundError::Ambiguous { prefix: word.to_owned(), names }.into()),
        }
    }

    /// The record as it is now, for a caller that has just taken the lock and will notice by itself whether it is alive.
    pub(crate) fn reread(&self, sandbox: &Sandbox) -> Result<Sandbox, EngineError> {
        self.store.get(&sandbox.id)?.ok_or_else(|| GroundError::NoSuchSandbox { name: sandbox.name.clone() }.into())
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
        self.tell_end(&stopped);
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
            None | Some(Err(EngineError::Ground(GroundError::Store(StoreError::Full)))) => self.as_stopped(self.reread(&sandbox)?),
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
        if self.is_all_rejected(&sandbox) {
            sandbox.status = Status::Rejected;
        }
        if reason == StopReason::Expired && sandbox.details.limits.then == Some(Then::Remove) {
            self.chores.start(Chore::Collect);
        }
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
        patience::try_until(PATIENCE, take)?.ok_or_else(|| GroundError::Busy { name: sandbox.name.clone() }.into())
    }

    pub fn template(&self, name: &str) -> Result<Template, EngineError> {
        self.store.get_template(name)?.ok_or_else(|| GroundError::NoSuchTemplate { name: name.escape_debug().to_string() }.into())
    }
}
