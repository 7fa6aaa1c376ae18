//! What became of a sandbox whose keeper left in the middle of a question: another command stopped or removed it meanwhile.

use std::time::Duration;

use whatif_keeper::Client;
use whatif_keeper::client::ClientError;
use whatif_layers::state_dir::AliveLock;
use whatif_provider::Instance;
use whatif_sys::patience;
use whatif_types::sandbox::StopReason;
use whatif_types::{EventKind, Sandbox, Status};

use crate::ground::keepers::instance_in;
use crate::ground::{Ground, GroundError};
use crate::{EngineError, now};

/// How long a keeper may take to exit.
const LAST_MOMENT: Duration = Duration::from_secs(1);

impl Ground {
    /// Asks the keeper of an active sandbox, for a command that only looks. `None` if it ended meanwhile: nothing runs in it then.
    pub(crate) fn ask<T>(
        &self,
        sandbox: &Sandbox,
        question: impl FnOnce(Client) -> Result<T, ClientError>,
    ) -> Result<Option<T>, EngineError> {
        self.ask_instance(sandbox, |instance| question(instance.connect()?))
    }

    /// The same for what the provider has to do with the answer.
    pub(crate) fn ask_instance<T>(
        &self,
        sandbox: &Sandbox,
        question: impl FnOnce(&dyn Instance) -> Result<T, ClientError>,
    ) -> Result<Option<T>, EngineError> {
        match self.instance(sandbox).and_then(|instance| Ok(question(&*instance)?)) {
            Err(EngineError::Ground(GroundError::Keeper(error))) if has_ended(&error) => match self.explain_end(sandbox, error) {
                EngineError::Ground(GroundError::EndedMeanwhile { .. }) => Ok(None),
                // However it ended, nothing runs in it.
                EngineError::Ground(GroundError::Keeper(_)) if self.has_stopped(sandbox) => Ok(None),
                other => Err(other),
            },
            other => other.map(Some),
        }
    }

    fn has_stopped(&self, sandbox: &Sandbox) -> bool {
        self.reread(sandbox).and_then(|now| self.refreshed(now)).is_ok_and(|now| now.status != Status::Active)
    }

    /// A keeper that exits closes its connections a moment before it gives up its lock.
    fn await_last_moment(&self, sandbox: &Sandbox) {
        let is_ending = || {
            self.state.find(&sandbox.id).ok().flatten().is_some_and(|directory| {
                instance_in(sandbox, &directory).is_ok_and(|i| matches!(i.connect(), Err(ClientError::NotRunning)))
                    && matches!(AliveLock::is_held(&directory), Ok(true))
            })
        };
        patience::until(LAST_MOMENT, || (!is_ending()).then_some(()));
    }

    /// Says why the keeper of a command that had begun is not there any more.
    #[must_use]
    pub fn explain_end_of_command(&self, sandbox: &Sandbox, error: EngineError) -> EngineError {
        let EngineError::Ground(GroundError::Keeper(error)) = error else { return error };
        match self.explain_end(sandbox, error) {
            EngineError::Ground(GroundError::EndedMeanwhile { name, .. }) => {
                GroundError::EndedMeanwhile { name, has_run: true }.into()
            }
            EngineError::Ground(GroundError::Removed { name, .. }) => GroundError::Removed { name, has_run: true }.into(),
            other => other,
        }
    }

    /// What another command did to the sandbox of a command that a signal ended; nothing if it goes on without that command.
    #[must_use]
    pub fn end_by_another_command(&self, sandbox: &Sandbox) -> Option<EngineError> {
        let gone = EngineError::from(GroundError::Keeper(ClientError::NotRunning));
        match self.explain_end_of_command(sandbox, gone) {
            ended @ EngineError::Ground(GroundError::EndedMeanwhile { .. } | GroundError::Removed { .. }) => Some(ended),
            _ => None,
        }
    }

    /// Says why a keeper is not there any more, as soon as the records tell it.
    pub(crate) fn explain_end(&self, sandbox: &Sandbox, error: ClientError) -> EngineError {
        if !has_ended(&error) {
            return error.into();
        }
        let name = sandbox.name.clone();
        self.await_other_command(&sandbox.id);
        self.await_last_moment(sandbox);
        match self.reread(sandbox).and_then(|now| self.refreshed(now)) {
            Err(EngineError::Ground(GroundError::NoSuchSandbox { .. })) => GroundError::Removed { name, has_run: false }.into(),
            Ok(_) if self.state.is_being_deleted(&sandbox.id) => GroundError::Removed { name, has_run: false }.into(),
            // No command ended it.
            Ok(now) if now.details.stop_reason == Some(StopReason::Lost) => error.into(),
            // One that was started again since is another one.
            Ok(now) if now.status != Status::Active || now.details.handle != sandbox.details.handle => {
                GroundError::EndedMeanwhile { name, has_run: false }.into()
            }
            _ => error.into(),
        }
    }

    /// Notes that a sandbox has no keeper any more, and why. For whoever holds its lock.
    pub(crate) fn note_end(&self, sandbox: &mut Sandbox, reason: StopReason) -> Result<(), EngineError> {
        self.unbind(sandbox);
        self.state.unpublish(&sandbox.name);
        let was_active = sandbox.status == Status::Active;
        mark_stopped(sandbox, reason);
        if self.is_all_rejected(sandbox) {
            sandbox.status = Status::Rejected;
        }
        self.record(sandbox)?;
        if was_active {
            self.tell_end(sandbox);
        }
        Ok(())
    }

    /// Tells that nothing runs in a sandbox any more, and why.
    pub(crate) fn tell_end(&self, sandbox: &Sandbox) {
        let reason = sandbox.details.stop_reason.and_then(|reason| serde_json::to_value(reason).ok()).unwrap_or_default();
        self.tell(EventKind::SandboxStopped, sandbox, vec![("reason", reason)]);
    }
}

pub(crate) fn has_ended(error: &ClientError) -> bool {
    matches!(error, ClientError::NotRunning | ClientError::Channel(_))
}

pub(crate) fn mark_stopped(sandbox: &mut Sandbox, reason: StopReason) {
    sandbox.status = Status::Stopped;
    sandbox.details.stop_reason = Some(reason);
    sandbox.details.handle = None;
    sandbox.updated_at = now();
}
