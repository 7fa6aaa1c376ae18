//! What running sandboxes use, beside what they may use.

use serde::Serialize;
use whatif_keeper::protocol::Stats;
use whatif_types::{Enforced, Limits, Sandbox, Selector, Status};

use crate::EngineError;
use crate::ground::GroundError;
use crate::lifecycle::Lifecycle;

#[derive(Clone, Debug, Serialize)]
pub struct Used {
    pub name: String,
    #[serde(flatten)]
    pub stats: Stats,
    pub limits: Limits,
    pub enforced: Vec<Enforced>,
    /// Until its time is up.
    pub remaining_ms: Option<u64>,
}

impl Lifecycle {
    /// `whatif stats`: of these, or of all that run.
    pub fn stats(&self, these: &[Selector]) -> Result<Vec<Used>, EngineError> {
        if these.is_empty() {
            let running = self.ground.store.list()?.into_iter().filter(|s| s.status == Status::Active && !s.details.transient);
            // One that ends just now must not keep the others from being shown.
            return Ok(running.filter_map(|s| self.used_by(s).ok()).collect());
        }
        these
            .iter()
            .map(|which| {
                let sandbox = self.ground.resolve(which)?;
                if sandbox.status == Status::Active {
                    self.used_by(sandbox)
                } else {
                    Err(GroundError::Stopped { name: sandbox.name }.into())
                }
            })
            .collect()
    }

    fn used_by(&self, sandbox: Sandbox) -> Result<Used, EngineError> {
        let stats = self
            .ground
            .ask_instance(&sandbox, |instance| instance.stats())?
            .ok_or_else(|| GroundError::Stopped { name: sandbox.name.clone() })?;
        let remaining_ms = self.ground.remaining_ms(&sandbox)?;
        let details = sandbox.details;
        Ok(Used { name: sandbox.name, stats, limits: details.limits, enforced: details.enforced, remaining_ms })
    }
}
