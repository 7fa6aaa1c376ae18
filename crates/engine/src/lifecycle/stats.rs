//! What running sandboxes use, beside what they may use.

use std::collections::HashMap;
use std::time::{Duration, Instant};

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

/// How long CPU time is looked at to say how much of it is used now.
const MOMENT: Duration = Duration::from_millis(200);

/// What sandboxes had used at one time.
#[derive(Debug)]
pub struct Sample {
    at: Instant,
    used: Vec<Used>,
}

/// A line of `stats --json`.
#[derive(Clone, Debug, Serialize)]
pub struct UsedNow {
    /// Processors used just now.
    pub cpus: f64,
    #[serde(flatten)]
    pub used: Used,
}

impl Sample {
    /// Each sandbox with the processors it used since the other sample.
    #[must_use]
    pub fn since(&self, before: &Self) -> Vec<UsedNow> {
        let earlier: HashMap<&str, u64> = before.used.iter().map(|u| (u.name.as_str(), u.stats.cpu_ms)).collect();
        let elapsed = self.at.duration_since(before.at).as_secs_f64() * 1000.0;
        let cpus = |u: &Used| {
            u.stats.cpu_ms.saturating_sub(earlier.get(u.name.as_str()).copied().unwrap_or(u.stats.cpu_ms)) as f64 / elapsed
        };
        self.used.iter().map(|used| UsedNow { cpus: (cpus(used) * 100.0).round() / 100.0, used: used.clone() }).collect()
    }
}

impl Lifecycle {
    /// What these have used so far, or all that run.
    pub fn sample(&self, these: &[Selector]) -> Result<Sample, EngineError> {
        Ok(Sample { at: Instant::now(), used: self.stats(these)? })
    }

    /// The second of two samples, a moment after the first, with the first to compare it with.
    pub fn two_samples(&self, these: &[Selector]) -> Result<(Sample, Sample), EngineError> {
        let before = self.sample(these)?;
        std::thread::sleep(MOMENT);
        Ok((before, self.sample(these)?))
    }

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
