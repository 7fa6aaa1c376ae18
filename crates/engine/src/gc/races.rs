//! Races of which only the record is left.

use std::collections::HashSet;
use std::fs;

use whatif_layers::state_dir::SandboxLock;
use whatif_types::ExperimentId;

use super::Collected;
use crate::race::Experiment;
use crate::{Engine, EngineError, now};

/// So long a result can be looked at when there is nothing to apply any more.
const KEPT_MS: u64 = 90 * 86_400_000;

impl Engine {
    pub(super) fn collect_races(&self, collected: &mut Collected) -> Result<(), EngineError> {
        let oldest = now().saturating_sub(KEPT_MS);
        let mut known = HashSet::new();
        for experiment in self.races()? {
            if experiment.details.ended_at.is_none_or(|at| at > oldest) || self.has_sandboxes(&experiment)? {
                known.insert(experiment.id);
                continue;
            }
            collected.races.push(experiment.name.clone());
            if !collected.dry_run {
                self.remove_race(&experiment)?;
            }
        }
        if !collected.dry_run {
            self.clear_race_directories(&known);
        }
        Ok(())
    }

    fn has_sandboxes(&self, experiment: &Experiment) -> Result<bool, EngineError> {
        for id in experiment.records.iter().filter_map(|record| record.sandbox.as_ref()) {
            if self.store.get(id)?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Their locks, left by a removal that was interrupted. What does not work now is done by a later `gc`.
    fn clear_race_directories(&self, known: &HashSet<ExperimentId>) {
        for entry in fs::read_dir(self.races_directory()).into_iter().flatten().filter_map(Result::ok) {
            let id = entry.file_name().to_str().and_then(ExperimentId::parse);
            let is_known = id.is_none_or(|id| known.contains(&id));
            if !is_known && SandboxLock::take(&entry.path()).is_ok_and(|lock| lock.is_some()) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
}
