//! An experiment: N sandboxes of one start state, each with its own attempt, run and ranked by the same checks.
//!
//! ```text
//! attempt:  waiting → running → ended      a crash leaves it running; `race resume` begins it anew
//! ```

mod event;
mod outcome;
mod plan;
mod ranking;

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

pub use self::event::Event;
pub use self::outcome::{ChangedFile, Changes, CheckOutcome, Ended, Measured, Outcome, TestCounts, Verdict};
pub use self::plan::{AttemptPlan, Better, CheckPlan, ExperimentPlan, Extract, Kind, MetricPlan};
pub use self::ranking::{Judged, Ranked, Ranking};

use crate::{ExperimentId, SandboxId, SnapshotId};

/// The label of a sandbox that belongs to an experiment; its value is the experiment's id.
pub const LABEL: &str = "whatif.race";

/// One experiment as it is recorded.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Experiment {
    pub id: ExperimentId,
    pub name: String,
    /// Incremented by every write.
    pub version: u64,
    /// Milliseconds since 1970.
    pub created_at: u64,
    #[serde(with = "crate::text::path")]
    pub project: PathBuf,
    pub details: ExperimentDetails,
    /// As many as the plan has attempts, in its order. Each is written by itself.
    pub records: Vec<Attempt>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ExperimentDetails {
    pub plan: ExperimentPlan,
    /// Reality when it began: what all attempts start from.
    pub began_at: u64,
    /// Set when there is nothing left to do; until then it can be resumed.
    #[serde(default)]
    pub ended_at: Option<u64>,
    /// Time spent on it so far, by all who ran it.
    #[serde(default)]
    pub spent_ms: u64,
    /// Where commands are run.
    #[serde(with = "crate::text::path")]
    pub cwd: PathBuf,
    /// What the sandboxes of its attempts shall be, as the engine writes it.
    pub sandbox: serde_json::Value,
    /// Variables that were set for it. Their values are not written down.
    #[serde(default)]
    pub set_env: Vec<String>,
    /// What was set up once for all attempts.
    #[serde(default)]
    pub start: Option<StartState>,
    /// What the judge said about those that were level.
    #[serde(default)]
    pub judged: Vec<Judged>,
    /// The attempts whose changes were made real, in order.
    #[serde(default)]
    pub applied: Vec<String>,
}

/// A prepared state that attempts begin with, instead of reality alone.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct StartState {
    pub sandbox: SandboxId,
    /// The snapshot in it.
    pub label: String,
}

/// One attempt as it is recorded.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Attempt {
    pub state: AttemptState,
    /// What holds its changes, while that is there.
    #[serde(default)]
    pub sandbox: Option<SandboxId>,
    /// What was judged. The sandbox may have gone on since.
    #[serde(default)]
    pub snapshot: Option<SnapshotId>,
    /// A digest of all it held when it was judged.
    #[serde(default)]
    pub seal: Option<String>,
    /// What is known of one whose own command has ended and that is not judged yet: that need not be done again.
    #[serde(default)]
    pub so_far: Option<Outcome>,
    /// Of an attempt that ended.
    #[serde(default)]
    pub outcome: Option<Outcome>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptState {
    #[default]
    Waiting,
    Running,
    Ended,
}

impl Attempt {
    #[must_use]
    pub fn waiting() -> Self {
        Self { state: AttemptState::Waiting, sandbox: None, snapshot: None, seal: None, so_far: None, outcome: None }
    }
}

impl Experiment {
    /// Attempts with what is planned for them, in order.
    pub fn attempts(&self) -> impl Iterator<Item = (&AttemptPlan, &Attempt)> {
        self.details.plan.attempts.iter().zip(&self.records)
    }

    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.details.ended_at.is_some()
    }
}
