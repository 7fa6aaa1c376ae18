//! What the rules remove goes by itself: commands start this in the background, at most once an hour.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use whatif_layers::measure;
use whatif_types::config::{GcRules, Unused};
use whatif_types::{Size, Status};

use super::{Collected, RemovedSandbox};
use crate::ground::GroundError;
use crate::ground::chores::Chore;
use crate::ground::stack::Unknown;
use crate::upkeep::Upkeep;
use crate::{EngineError, now, private_file};

/// Worth a word, and so is this part of the disk.
const LARGE: u64 = 20 << 30;
const LARGE_PART: u64 = 10;

const EVERY: Duration = Duration::from_secs(3600);
/// In `cache/`: when that was last done, and what came of it.
const NOTE: &str = "collected.json";
/// In `cache/`: the `at` of the last one that a person was told of.
const TOLD: &str = "collected-told";

/// What the last one found.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct InPassing {
    /// What everything in the state directory takes.
    pub total_bytes: Option<u64>,
    pub removed: Vec<RemovedSandbox>,
    /// Milliseconds since 1970: tells one from the next.
    pub at: u64,
}

impl Upkeep {
    /// At the end of a command: costs a look at a file and at a directory.
    pub fn collect_if_due(&self) {
        // Whoever made it wanted that, whatever else goes by itself.
        if self.ground.is_removal_due() {
            self.ground.chores.start(Chore::Collect);
        }
        if !self.ground.caller.config.gc.auto {
            return;
        }
        let note = self.collected_note();
        let is_due = match fs::metadata(&note).and_then(|m| m.modified()) {
            // A time in the future is that of a clock that was set back.
            Ok(at) => at.elapsed().map_or(true, |age| age >= EVERY),
            // Where nothing was done so far there is nothing to collect yet.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let _ = self.write_note(&InPassing::default());
                false
            }
            Err(_) => false,
        };
        // Noted first, so that the next command does not start another one.
        if is_due && self.write_note(&self.collected_in_passing()).is_ok() {
            self.ground.chores.start(Chore::Collect);
        }
    }

    /// What the last one found and removed.
    #[must_use]
    pub fn collected_in_passing(&self) -> InPassing {
        let text = fs::read(self.collected_note()).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    /// The same for a person, who is told once what was removed.
    #[must_use]
    pub fn news_of_collected(&self) -> InPassing {
        let found = self.collected_in_passing();
        if found.removed.is_empty() || self.is_told(&found) {
            return InPassing { removed: Vec::new(), ..found };
        }
        // Where that cannot be noted it is told again.
        let _ = private_file::replace(&self.told_note(), found.at.to_string().as_bytes());
        found
    }

    fn is_told(&self, found: &InPassing) -> bool {
        fs::read(self.told_note()).is_ok_and(|told| told == found.at.to_string().as_bytes())
    }

    /// Removes what the rules do not keep. Unlike `gc` it repairs nothing.
    pub(crate) fn collect_in_passing(&self) -> Result<(), EngineError> {
        whatif_sys::scheduling::yield_to_all_others();
        let mut collected = Collected::default();
        // One whose keeper is gone is recorded as running until somebody looks.
        for sandbox in self.ground.store.list()?.into_iter().filter(|s| s.status == Status::Active) {
            match self.ground.refreshed(sandbox) {
                Err(EngineError::Ground(GroundError::NoSuchSandbox { .. })) => {}
                other => drop(other?),
            }
        }
        let rules = &self.ground.caller.config.gc;
        self.remove_by_rules(&if rules.auto { rules.clone() } else { removing_nothing() }, &mut collected)?;
        self.ground.renew_removals()?;
        if !collected.sandboxes.is_empty() {
            self.ground.remove_unneeded_layers(Unknown::Keep)?;
        }
        self.ground.store.forget_expired(now())?;
        let total_bytes = Some(measure::tree(self.ground.state.root())?.bytes);
        let earlier = self.collected_in_passing();
        let untold = if self.is_told(&earlier) { Vec::new() } else { earlier.removed };
        let removed = untold.into_iter().chain(collected.sandboxes).collect();
        self.write_note(&InPassing { total_bytes, removed, at: now() })
    }

    /// What is to be said about the size of the state directory, where the configuration says nothing about it.
    #[must_use]
    pub fn size_alert(&self, total: u64) -> Option<String> {
        if self.ground.caller.config.disk.warn.is_some() {
            return None;
        }
        let disk =
            rustix::fs::statvfs(self.ground.state.root()).map_or(u64::MAX, |disk| disk.f_blocks.saturating_mul(disk.f_frsize));
        let most = LARGE.min(disk / LARGE_PART);
        (total >= most).then(|| format!("sandboxes take {}", Size(total)))
    }

    fn write_note(&self, found: &InPassing) -> Result<(), EngineError> {
        let path = self.collected_note();
        let text = serde_json::to_vec(found).map_err(|e| EngineError::io("write", &path, e.into()))?;
        private_file::replace(&path, &text).map_err(|e| EngineError::io("write", &path, e))
    }

    fn collected_note(&self) -> PathBuf {
        self.ground.state.cache().join(NOTE)
    }

    fn told_note(&self) -> PathBuf {
        self.ground.state.cache().join(TOLD)
    }
}

/// Rules by which nothing goes but what was made to go.
fn removing_nothing() -> GcRules {
    GcRules { remove: Vec::new(), unused: Unused(None), max_age: None, max_total: None, ..GcRules::default() }
}
