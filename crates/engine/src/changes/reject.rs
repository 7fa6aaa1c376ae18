//! `whatif reject`: nobody wants these changes.

use std::time::Duration;

use whatif_types::config::Rejected;
use whatif_types::{Sandbox, Selector, Status};

use crate::changes::Changes;
use crate::{EngineError, now};

impl Changes {
    /// Ends what runs and keeps or deletes the sandbox, as asked or as the policy says. True: it is gone.
    pub fn reject(&self, which: &Selector, asked: Option<Rejected>) -> Result<(Sandbox, bool), EngineError> {
        if asked.unwrap_or(self.ground.caller.config.policy.reject) == Rejected::Delete {
            return Ok((self.lifecycle.remove(which, false)?, true));
        }
        let sandbox = self.ground.resolve(which)?;
        let _lock = self.ground.lock(&sandbox)?;
        let mut sandbox = self.ground.refresh(&sandbox)?;
        if sandbox.status == Status::Active {
            self.lifecycle.stop_processes(&sandbox, Duration::from_secs(1))?;
            self.ground.state.unpublish(&sandbox.name);
            sandbox.details.handle = None;
        }
        sandbox.status.check_move_to(Status::Rejected).map_err(whatif_store::StoreError::from)?;
        sandbox.status = Status::Rejected;
        self.lifecycle.recount(&mut sandbox)?;
        sandbox.updated_at = now();
        self.ground.store.update(&mut sandbox)?;
        Ok((sandbox, false))
    }
}
