//! Asks an instance to stand still, and gets it ready for that in time.

use whatif_keeper::Client;
use whatif_keeper::client::ClientError;
use whatif_provider::{Pausing, Recorded};
use whatif_types::Sandbox;
use whatif_types::boot::PROTOCOL_VERSION;

use crate::EngineError;
use crate::ground::Ground;

impl Ground {
    /// Begins to pause a sandbox that can be put on other layers meanwhile.
    pub(crate) fn pause(&self, sandbox: &Sandbox) -> Result<Pausing, EngineError> {
        self.require_our_keeper(sandbox)?;
        Ok(self.instance(sandbox)?.pause(&self.recorded(sandbox))?)
    }

    /// For what goes on running. Only a shortcut: a pause does what was not done before.
    pub(crate) fn prepare_pause(&self, sandbox: &Sandbox) {
        if sandbox.details.keeper_version == PROTOCOL_VERSION
            && let Ok(instance) = self.instance(sandbox)
        {
            instance.prepare_pause(&self.recorded(sandbox));
        }
    }

    /// For a command that is about to be started over this connection.
    pub(crate) fn prepare_pause_ahead(&self, sandbox: &Sandbox, keeper: &mut Client) -> Result<(), ClientError> {
        if sandbox.details.keeper_version != PROTOCOL_VERSION {
            return Ok(());
        }
        let Ok(instance) = self.instance(sandbox) else { return Ok(()) };
        instance.prepare_pause_ahead(keeper, &self.recorded(sandbox))
    }

    pub(crate) fn recorded<'a>(&'a self, sandbox: &'a Sandbox) -> Recorded<'a> {
        Recorded { state: self.state.root(), enforced: &sandbox.details.enforced }
    }
}
