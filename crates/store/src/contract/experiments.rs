//! Races: what was to be tried, and what came of each attempt.

use std::path::Path;

use whatif_types::experiment::Attempt;
use whatif_types::{Experiment, ExperimentId};

use crate::StoreError;

pub trait Experiments {
    /// Records an experiment and all of its attempts.
    fn insert_experiment(&self, experiment: &Experiment) -> Result<(), StoreError>;
    /// By name or id.
    fn find_experiment(&self, name: &str) -> Result<Option<Experiment>, StoreError>;
    /// The newest of a project.
    fn latest_experiment(&self, project: &Path) -> Result<Option<Experiment>, StoreError>;
    /// Newest first. Those that cannot be read are left out.
    fn list_experiments(&self) -> Result<Vec<Experiment>, StoreError>;
    /// Writes all but its attempts, if its version is still the one given; the new version is stored in it.
    fn update_experiment(&self, experiment: &mut Experiment) -> Result<(), StoreError>;
    /// Writes one attempt, by its number in the plan, if the experiment is still there.
    fn put_attempt(&self, id: &ExperimentId, number: usize, attempt: &Attempt) -> Result<(), StoreError>;
    fn delete_experiment(&self, id: &ExperimentId) -> Result<(), StoreError>;
    /// The same by name or id, also of one that cannot be read.
    fn delete_experiment_named(&self, name: &str) -> Result<(), StoreError>;
}
