//! Ends what runs in a sandbox and keeps its head.

use std::path::Path;
use std::time::Duration;

use whatif_keeper::client::ClientError;
use whatif_layers::StateDir;
use whatif_layers::state_dir::{AliveLock, SandboxLock};
use whatif_store::StoreError;
use whatif_types::sandbox::StopReason;
use whatif_types::{Sandbox, Selector, Status, experiment};

use crate::EngineError;
use crate::ground::GroundError;
use crate::ground::keepers::instance_in;
use crate::ground::lifetime::is_expired;
use crate::lifecycle::{Lifecycle, LifecycleError};
use crate::network::{LAST_WORDS, end_supervisor};

/// How long processes are given between TERM and KILL.
pub const DEFAULT_GRACE: Duration = Duration::from_secs(5);
/// A keeper that answers nothing for this long after the grace is killed.
const KEEPER_PATIENCE: Duration = Duration::from_secs(3);

/// What becomes of a sandbox that a command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Afterwards {
    Kept,
    Removed,
}

/// A sandbox that was to be stopped.
#[derive(Clone, Debug)]
pub struct Stopped {
    pub sandbox: Sandbox,
    /// Otherwise there was nothing to do.
    pub was_running: bool,
}

impl Lifecycle {
    /// `whatif stop`. A sandbox in which nothing runs stays as it is, but does not start by itself any more.
    pub fn stop(&self, which: &Selector, grace: Duration) -> Result<Stopped, EngineError> {
        let sandbox = self.ground.resolve(which)?;
        let Some(_lock) = self.lock_to_end(&sandbox, grace, Afterwards::Kept)? else {
            return Ok(Stopped { sandbox: Sandbox { status: Status::Deleted, ..sandbox }, was_running: true });
        };
        let was_running = sandbox.status == Status::Active;
        let mut sandbox = self.ground.refresh(&sandbox)?;
        // What was decided about it stays decided.
        if matches!(sandbox.status, Status::Approved | Status::Rejected) {
            return Ok(Stopped { sandbox, was_running: false });
        }
        if sandbox.status == Status::Active {
            self.stop_processes(&sandbox, grace)?;
            self.recount(&mut sandbox)?;
        }
        sandbox.status.check_move_to(Status::Stopped).map_err(StoreError::from)?;
        self.ground.note_end(&mut sandbox, StopReason::Requested)?;
        Ok(Stopped { sandbox, was_running })
    }

    /// The lock of a sandbox that is to end. The `run` that made it holds the lock until its command has ended, so the command
    /// is ended first. `None`: that run found nothing worth keeping.
    pub(crate) fn lock_to_end(
        &self,
        sandbox: &Sandbox,
        grace: Duration,
        afterwards: Afterwards,
    ) -> Result<Option<SandboxLock>, EngineError> {
        let directory = self.ground.directory(sandbox)?;
        if let Some(lock) = SandboxLock::take(&directory)? {
            return Ok(Some(lock));
        }
        // An attempt is its race's to end.
        let is_run = |now: Sandbox| {
            now.details.transient && now.status == Status::Active && !now.details.labels.contains_key(experiment::LABEL)
        };
        let was_run = self.ground.store.get(&sandbox.id)?.is_none_or(is_run);
        if was_run {
            if afterwards == Afterwards::Removed {
                StateDir::mark_unwanted(&directory)?;
            }
            self.stop_keeper(sandbox, &directory, grace)?;
        }
        match self.ground.lock_as_it_is(sandbox) {
            Err(_) if was_run && self.ground.state.find(&sandbox.id)?.is_none() => Ok(None),
            other => other.map(Some),
        }
    }

    /// Counts what the sandbox changed, for its record: of one that rests, that is what `ls` and `gc` go by. Every command that
    /// puts a sandbox to rest, or gives one at rest other layers, calls it.
    pub(crate) fn recount(&self, sandbox: &mut Sandbox) -> Result<(), EngineError> {
        let summary = match self.ground.summarize(sandbox) {
            // It must be possible to end what runs in it.
            Err(EngineError::Ground(GroundError::Incomplete { .. })) => return Ok(()),
            other => other?,
        };
        sandbox.details.changed_files = summary.changed_files;
        sandbox.details.size_bytes = summary.size_bytes;
        // Not everything in it is real any more.
        if sandbox.status == Status::Approved && summary.changed_files > 0 {
            sandbox.status = Status::Stopped;
        }
        Ok(())
    }

    /// Asks the keeper to end everything and sees to it that it is gone.
    pub(crate) fn stop_processes(&self, sandbox: &Sandbox, grace: Duration) -> Result<(), EngineError> {
        let directory = self.ground.directory(sandbox)?;
        let ended = self.stop_keeper(sandbox, &directory, grace);
        end_supervisor(&directory, &sandbox.id, LAST_WORDS);
        ended
    }

    fn stop_keeper(&self, sandbox: &Sandbox, directory: &Path, grace: Duration) -> Result<(), EngineError> {
        let instance = instance_in(sandbox, directory)?;
        let mut client = match instance.connect() {
            Err(ClientError::NotRunning | ClientError::NoAnswer) => {
                // It cannot be asked, only ended.
                let is_held = AliveLock::is_held(directory)?;
                if is_held && instance.hold() {
                    instance.kill();
                    instance.see_off(directory, KEEPER_PATIENCE);
                }
                return Ok(());
            }
            other => other?,
        };
        // While the connection proves that the keeper lives.
        let is_held = instance.hold();
        let limit = grace + KEEPER_PATIENCE;
        let timeout = Some(limit);
        rustix::net::sockopt::set_socket_timeout(client.as_fd(), rustix::net::sockopt::Timeout::Recv, timeout)
            .map_err(ClientError::from)?;
        let asked = client.stop(grace.as_millis() as u64);
        if !is_held {
            return Ok(asked?);
        }
        if asked.is_err() || !instance.wait(Some(KEEPER_PATIENCE)) {
            instance.kill();
            instance.see_off(directory, KEEPER_PATIENCE);
        }
        Ok(())
    }

    /// Heads are rewritten only while nothing is mounted over them. A sandbox in which nothing runs is stopped for it and starts
    /// again by itself.
    pub(crate) fn rest(&self, sandbox: &mut Sandbox) -> Result<(), EngineError> {
        if sandbox.status != Status::Active {
            return Ok(());
        }
        // What its own file systems are served by is no matter.
        if !self.ground.pause(sandbox)?.complete()?.running.is_empty() {
            return Err(LifecycleError::StillRunning { name: sandbox.name.clone() }.into());
        }
        self.put_to_rest(sandbox)
    }

    /// Stops a sandbox in which nothing runs.
    pub(crate) fn put_to_rest(&self, sandbox: &mut Sandbox) -> Result<(), EngineError> {
        self.stop_processes(sandbox, std::time::Duration::ZERO)?;
        let reason = if is_expired(sandbox)? { StopReason::Expired } else { StopReason::Finished };
        self.ground.note_end(sandbox, reason)
    }
}
