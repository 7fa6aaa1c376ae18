//! Talks to the supervisor of a sandbox.

use whatif_keeper::client;
use whatif_supervisor::control::{Answering, ControlClient, ControlError};
use whatif_types::{NetMode, Sandbox};

use super::{CONTROL, directory, supervise};
use crate::EngineError;
use crate::network::{Network, NetworkError};

impl Network {
    /// Its supervisor, or whoever waits to start one and does so for us.
    pub(super) fn control(&self, sandbox: &Sandbox) -> Result<ControlClient, EngineError> {
        let place = directory(&self.ground.directory(sandbox)?);
        Ok(ControlClient::over(client::connect_to(&place, CONTROL)?))
    }

    /// For somebody who answers the questions of a supervisor. One that is not there yet is not waited for.
    #[must_use]
    pub fn answering(&self, sandbox: &Sandbox) -> Option<Answering> {
        if sandbox.details.net != NetMode::Filtered {
            return None;
        }
        supervise::find(&self.ground.directory(sandbox).ok()?, &sandbox.id)?;
        self.control(sandbox).ok()?.answering().ok()
    }
}

pub(super) fn refused(sandbox: &Sandbox, error: &ControlError) -> EngineError {
    NetworkError::Supervisor { name: sandbox.name.clone(), message: error.to_string() }.into()
}
