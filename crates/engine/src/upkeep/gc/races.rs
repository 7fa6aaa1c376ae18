//! Races of which only the record is left.

use std::fs;

use whatif_layers::state_dir::SandboxLock;
use whatif_types::ExperimentId;

use super::Collected;
use crate::races::Experiment;
use crate::upkeep::Upkeep;
use crate::{EngineError, now};

/// So long a result can be looked at when there is nothing to apply any more.
const KEPT_MS: u64 = 90 * 86_400_000;

impl Upkeep {
    pub(super) fn collect_races(&self, collected: &mut Collected) -> Result<(), EngineError> {
        let oldest = now().saturating_sub(KEPT_MS);
        for experiment in self.races.races()? {
            if experiment.details.ended_at.is_none_or(|at| at > oldest) || self.has_sandboxes(&experiment)? {
                continue;
            }
            collected.races.push(experiment.name.clone());
            if !collected.dry_run {
                self.races.remove_race(&experiment)?;
            }
        }
        if !collected.dry_run {
            self.clear_race_locks();
        }
        Ok(())
    }

    fn has_sandboxes(&self, experiment: &Experiment) -> Result<bool, EngineError> {
        for id in experiment.records.iter().filter_map(|record| record.sandbox.as_ref()) {
            if self.ground.store.get(id)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Removes the locks of races that are gone, which an interrupted removal leaves. What does not work now is done by a later one.
    pub fn clear_race_locks(&self) {
        for entry in fs::read_dir(self.races.races_directory()).into_iter().flatten().filter_map(Result::ok) {
            let Some(id) = entry.file_name().to_str().and_then(ExperimentId::parse) else { continue };
            // Asked while nobody else can claim it: a race is recorded before it is claimed.
            if let Ok(Some(_lock)) = SandboxLock::take(&entry.path())
                && matches!(self.ground.store.find_experiment(id.as_str()), Ok(None))
            {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
}
