//! Removes the sandboxes that the rules do not keep, each only while nobody is at work on it.

use whatif_layers::measure;
use whatif_types::MadeBy;
use whatif_types::config::GcRules;

use super::Collected;
use super::policy::{Candidate, Stock, choose};
use crate::ground::retention::may_be_empty;
use crate::upkeep::Upkeep;
use crate::{EngineError, now};

impl Upkeep {
    pub(super) fn remove_by_rules(&self, rules: &GcRules, collected: &mut Collected) -> Result<(), EngineError> {
        let lineage = self.ground.lineage()?;
        let mut candidates = Vec::new();
        for (sandbox, snapshots) in &lineage.sandboxes {
            let Some(directory) = self.ground.state.find(&sandbox.id)? else { continue };
            let has_snapshots = snapshots.iter().any(|s| s.details.made_by == MadeBy::Request);
            // Looked at, not only read in its record: what is deleted does not come back.
            let is_empty = may_be_empty(sandbox) && self.ground.summarize(sandbox).is_ok_and(|now| now.changed_files == 0);
            let bytes = measure::tree(&directory)?.bytes;
            let is_over = self.ground.removed_in(sandbox)?.is_some_and(|left| left.is_zero());
            candidates.push(Candidate { sandbox: sandbox.clone(), has_snapshots, is_empty, is_over, bytes });
        }
        let layers = self.ground.layers_in_use(&lineage)?;
        let total = if rules.max_total.is_some() { measure::tree(self.ground.state.root())?.bytes } else { 0 };
        let stock = Stock { candidates: &candidates, layers: &layers, total, now: now() };
        for (candidate, removed) in choose(rules, &stock) {
            if collected.dry_run || self.lifecycle.remove_unused(&candidate.sandbox)? {
                collected.freed_bytes += candidate.bytes;
                collected.sandboxes.push(removed);
            } else {
                collected.busy.push(removed.name);
            }
        }
        Ok(())
    }
}
