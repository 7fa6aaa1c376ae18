//! Takes a sandbox away: at once for everybody who looks, and in the background from the disk.

use std::fs;
use std::path::Path;
use std::time::Duration;

use whatif_keeper::client::ClientError;
use whatif_layers::remove;
use whatif_layers::state_dir::{AliveLock, SandboxLock};
use whatif_provider::{Instance, Orphan};
use whatif_sys::command;
use whatif_types::{EventKind, Sandbox, Selector, Status};

use crate::EngineError;
use crate::ground::keepers::{all_in, end_orphan, instance_in};
use crate::lifecycle::stop::Afterwards;
use crate::lifecycle::{Lifecycle, LifecycleError};
use crate::mounts::mounts_in;
use crate::network::end_supervisor;

/// How long `rm` itself waits for processes to be gone before it leaves that to the background.
const PATIENCE: Duration = Duration::from_millis(500);
const BACKGROUND_PATIENCE: Duration = Duration::from_secs(60);

impl Lifecycle {
    /// `whatif rm`. With `only_stopped`, a running sandbox is refused.
    pub fn remove(&self, which: &Selector, only_stopped: bool) -> Result<Sandbox, EngineError> {
        let removed = self.remove_called(which, only_stopped)?;
        self.ground.remember_removal(&removed);
        if removed.details.position.taken > 0 || !removed.details.position.stack.is_empty() {
            self.ground.layers_are_left();
        }
        Ok(removed)
    }

    /// Whether a sandbox that is not there was removed on request: then there is nothing left to do.
    pub fn was_removed(&self, word: &str) -> Result<bool, EngineError> {
        self.ground.was_removed(word)
    }

    /// What is deleted in the background can be deleted by other means from now on: whoever uninstalls does that.
    pub fn open_up_the_rest(&self) {
        self.ground.state.open_up();
    }

    fn remove_called(&self, which: &Selector, only_stopped: bool) -> Result<Sandbox, EngineError> {
        let sandbox = self.ground.resolve(which)?;
        if only_stopped && sandbox.status == Status::Active {
            return Err(LifecycleError::StillRunning { name: sandbox.name }.into());
        }
        if self.ground.state.find(&sandbox.id)?.is_none() {
            // Only its record and its snapshots are left, and what still runs in it.
            self.end_keeper_without_directory(&sandbox)?;
            self.ground.state.unpublish(&sandbox.name);
            self.ground.unbind(&sandbox);
            self.ground.store.delete(&sandbox.id)?;
            self.tell_removal(&sandbox);
            return Ok(sandbox);
        }
        let Some(lock) = self.lock_to_end(&sandbox, Duration::ZERO, Afterwards::Removed)? else { return Ok(sandbox) };
        // What a killed snapshot left in the middle of things would name its layer for ever.
        let _ = self.ground.recover_shift(&self.ground.state.shift_note(&sandbox.id), &lock);
        self.remove_locked(sandbox, lock)
    }

    pub(crate) fn remove_locked(&self, sandbox: Sandbox, lock: SandboxLock) -> Result<Sandbox, EngineError> {
        let directory = self.ground.directory(&sandbox)?;
        let instance = instance_in(&sandbox, &directory)?;
        // While the connection, or the lock only a keeper holds, proves that it lives.
        let is_held = match instance.connect() {
            Ok(mut client) => {
                let is_held = instance.hold();
                if !is_held {
                    // Where it is out of our reach, it can still be asked.
                    client.stop(0)?;
                }
                is_held
            }
            Err(ClientError::NotRunning | ClientError::NoAnswer) if AliveLock::is_held(&directory)? => instance.hold(),
            Err(ClientError::NotRunning) => false,
            Err(error) => return Err(error.into()),
        };
        let removed = sandbox.clone();
        if is_held {
            instance.kill();
            instance.see_off(&directory, PATIENCE);
            self.discard(sandbox, lock, &*instance)?;
        } else {
            self.put_away(&sandbox, lock, None)?;
        }
        self.tell_removal(&removed);
        Ok(removed)
    }

    /// Those that were never shown to anybody come and go in silence.
    fn tell_removal(&self, sandbox: &Sandbox) {
        if !sandbox.details.transient && !sandbox.details.disposable {
            self.ground.tell(EventKind::SandboxRemoved, sandbox, Vec::new());
        }
    }

    /// Ends the keeper and puts the sandbox away, without waiting for either.
    pub(crate) fn discard(&self, sandbox: Sandbox, lock: SandboxLock, instance: &dyn Instance) -> Result<(), EngineError> {
        instance.kill();
        // Its ports are for the next one, who may come at once.
        if !sandbox.details.network.publish.is_empty() {
            end_supervisor(&self.ground.directory(&sandbox)?, &sandbox.id, Duration::ZERO);
        }
        self.put_away(&sandbox, lock, Some(instance))
    }

    /// Ends the keeper and deletes the sandbox before it returns.
    pub(crate) fn discard_here(&self, sandbox: &Sandbox, instance: &dyn Instance) -> Result<(), EngineError> {
        instance.kill();
        self.ground.state.disown(&sandbox.id);
        let doomed = self.ground.state.condemn(&sandbox.id)?;
        self.ground.store.delete(&sandbox.id)?;
        self.delete_when_free(sandbox, &doomed, Some(instance));
        Ok(())
    }

    fn put_away(&self, sandbox: &Sandbox, lock: SandboxLock, instance: Option<&dyn Instance>) -> Result<(), EngineError> {
        self.ground.state.unpublish(&sandbox.name);
        self.ground.state.disown(&sandbox.id);
        if self.ground.caller.config.disk != Default::default() {
            self.ground.forget_size();
        }
        let doomed = self.ground.state.condemn(&sandbox.id)?;
        if let Err(error) = self.ground.store.delete(&sandbox.id) {
            // A full disk may not even have room for that; deleting the head makes some.
            self.delete_when_free(sandbox, &doomed, instance);
            self.ground.store.delete(&sandbox.id).map_err(|_| error)?;
            return Ok(());
        }
        match command::continue_in_background() {
            // The child inherits the lock, so nobody else takes this for a leftover while it is being deleted.
            Ok(true) => {
                self.delete_when_free(sandbox, &doomed, instance);
                command::exit_now(0)
            }
            Ok(false) => {
                drop(lock);
                Ok(())
            }
            // No process to be had: do it here.
            Err(_) => {
                self.delete_when_free(sandbox, &doomed, instance);
                Ok(())
            }
        }
    }

    /// What cannot be deleted now is found again by the next command.
    fn delete_when_free(&self, sandbox: &Sandbox, directory: &Path, instance: Option<&dyn Instance>) {
        if !instance.is_none_or(|instance| instance.see_off(directory, BACKGROUND_PATIENCE)) {
            return;
        }
        // A record that a power cut brings back must find its sandbox whole. (That of a run which nobody kept is not missed.)
        if !sandbox.details.transient && self.ground.store.flush().is_err() {
            return;
        }
        end_supervisor(directory, &sandbox.id, Duration::ZERO);
        self.ground.unbind_in(sandbox, directory);
        // Its directories belong to a project.
        let is_of_use = !self.ground.release_room(&sandbox.details.limits, directory);
        if !(is_of_use && self.ground.state.recycle(directory)) {
            let _ = remove::tree(directory);
        }
    }

    /// The keeper of a sandbox whose directory is gone, and with it all that leads there.
    pub(crate) fn end_keeper_without_directory(&self, sandbox: &Sandbox) -> Result<(), EngineError> {
        let root = self.ground.state.root();
        let root = fs::canonicalize(root).map_err(|e| EngineError::io("examine", root, e))?;
        let is_meant = |orphan: &Orphan| orphan.id == sandbox.id && orphan.directory.is_none();
        match all_in(&root).find(is_meant) {
            Some(orphan) if !end_orphan(&orphan) => Err(LifecycleError::StillRunning { name: sandbox.name.clone() }.into()),
            _ => Ok(()),
        }
    }

    /// Deletes it before it returns. False: somebody is, or was meanwhile, at work on it, or something is mounted in it.
    pub(crate) fn remove_unused(&self, judged: &Sandbox) -> Result<bool, EngineError> {
        let Some(directory) = self.ground.state.find(&judged.id)? else { return Ok(false) };
        let Some(_lock) = SandboxLock::take(&directory)? else { return Ok(false) };
        let is_as_judged = self.ground.store.get(&judged.id)?.is_some_and(|s| s.version == judged.version);
        if !is_as_judged || AliveLock::is_held(&directory)? || !mounts_in(&directory)?.is_empty() {
            return Ok(false);
        }
        self.remove_here(judged)?;
        Ok(true)
    }

    fn remove_here(&self, sandbox: &Sandbox) -> Result<(), EngineError> {
        self.ground.state.unpublish(&sandbox.name);
        self.ground.state.disown(&sandbox.id);
        let doomed = self.ground.state.condemn(&sandbox.id)?;
        self.ground.store.delete(&sandbox.id)?;
        self.ground.unbind_in(sandbox, &doomed);
        self.ground.release_room(&sandbox.details.limits, &doomed);
        self.ground.forget_size();
        // What cannot be deleted now is found again by the next command.
        let _ = remove::tree(&doomed);
        Ok(())
    }
}
