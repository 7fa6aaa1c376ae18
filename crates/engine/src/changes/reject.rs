//! `whatif reject`: nobody wants these changes.

use std::time::Duration;

use whatif_diff::Depth;
use whatif_types::config::Rejected;
use whatif_types::{EventKind, Sandbox, Selector, Status};

use crate::changes::Changes;
use crate::changes::review::Verdict;
use crate::ground::GroundError;
use crate::{EngineError, now};

/// A sandbox that was to be rejected.
#[derive(Clone, Debug)]
pub struct Rejection {
    pub sandbox: Sandbox,
    pub is_gone: bool,
    /// There was nothing left to do.
    pub was_rejected: bool,
}

impl Changes {
    /// Ends what runs and keeps or deletes the sandbox, as asked or as the policy says.
    pub fn reject(&self, which: &Selector, asked: Option<Rejected>) -> Result<Rejection, EngineError> {
        if asked.unwrap_or(self.ground.caller.config.policy.reject) == Rejected::Delete {
            return Ok(Rejection { sandbox: self.lifecycle.remove(which, false)?, is_gone: true, was_rejected: false });
        }
        let sandbox = self.ground.resolve(which)?;
        let _lock = self.ground.lock(&sandbox)?;
        let mut sandbox = self.ground.refresh(&sandbox)?;
        if sandbox.status == Status::Rejected {
            return Ok(Rejection { sandbox, is_gone: false, was_rejected: true });
        }
        if sandbox.status == Status::Active {
            self.lifecycle.stop_processes(&sandbox, Duration::from_secs(1))?;
            self.ground.state.unpublish(&sandbox.name);
            sandbox.details.handle = None;
        }
        sandbox.status.check_move_to(Status::Rejected).map_err(whatif_store::StoreError::from)?;
        sandbox.status = Status::Rejected;
        self.lifecycle.recount(&mut sandbox)?;
        sandbox.updated_at = now();
        match self.reject_all(&sandbox) {
            // What is missing cannot be applied either.
            Err(EngineError::Ground(GroundError::Incomplete { .. })) => {}
            other => other?,
        }
        self.ground.store.update(&mut sandbox)?;
        self.ground.tell(EventKind::SandboxRejected, &sandbox, Vec::new());
        Ok(Rejection { sandbox, is_gone: false, was_rejected: false })
    }

    /// Decides about each change, as a review does. So the rejection holds for what is there now, whatever is run in the sandbox later,
    /// and a review can take some of it all the same.
    fn reject_all(&self, sandbox: &Sandbox) -> Result<(), EngineError> {
        let set = self.ground.change_set(sandbox, Depth::Names)?;
        let mut review = self.review(sandbox, &set)?;
        review.digest.clone_from(&set.digest);
        for change in &set.changes {
            review.decide(change, Some(Verdict::Rejected));
        }
        self.save_review(sandbox, &review)?;
        self.ground.note_rejection(sandbox)
    }
}
