//! Removes the sandboxes that the rules do not keep, each only while nobody is at work on it.

use whatif_layers::state_dir::{AliveLock, SandboxLock};
use whatif_layers::{measure, remove};
use whatif_types::config::GcRules;
use whatif_types::{MadeBy, Sandbox};

use super::mounts::mounts_in;
use super::policy::{Candidate, Stock, choose};
use super::{Collect, Collected};
use crate::{Engine, EngineError, now};

impl Engine {
    pub(super) fn remove_by_rules(&self, asked: &Collect, collected: &mut Collected) -> Result<(), EngineError> {
        let configured = &self.context.config.gc;
        let rules = GcRules {
            max_age: asked.older_than.or(configured.max_age),
            max_total: asked.max_total.or(configured.max_total),
            ..configured.clone()
        };
        let lineage = self.lineage()?;
        let mut candidates = Vec::new();
        for (sandbox, snapshots) in &lineage.sandboxes {
            let Some(directory) = self.state.find(&sandbox.id)? else { continue };
            let has_snapshots = snapshots.iter().any(|s| s.details.made_by == MadeBy::Request);
            candidates.push(Candidate { sandbox: sandbox.clone(), has_snapshots, bytes: measure::tree(&directory)?.bytes });
        }
        let layers = self.layers_in_use(&lineage)?;
        let total = if rules.max_total.is_some() { measure::tree(self.state.root())?.bytes } else { 0 };
        let stock = Stock { candidates: &candidates, layers: &layers, total, now: now() };
        for (candidate, removed) in choose(&rules, &stock) {
            if collected.dry_run || self.remove_unused(&candidate.sandbox)? {
                collected.freed_bytes += candidate.bytes;
                collected.sandboxes.push(removed);
            } else {
                collected.busy.push(removed.name);
            }
        }
        Ok(())
    }

    /// Deletes it before it returns. False: somebody is, or was meanwhile, at work on it, or something is mounted in it.
    pub(crate) fn remove_unused(&self, judged: &Sandbox) -> Result<bool, EngineError> {
        let Some(directory) = self.state.find(&judged.id)? else { return Ok(false) };
        let Some(_lock) = SandboxLock::take(&directory)? else { return Ok(false) };
        let is_as_judged = self.store.get(&judged.id)?.is_some_and(|s| s.version == judged.version);
        if !is_as_judged || AliveLock::is_held(&directory)? || !mounts_in(&directory)?.is_empty() {
            return Ok(false);
        }
        self.remove_here(judged)?;
        Ok(true)
    }

    fn remove_here(&self, sandbox: &Sandbox) -> Result<(), EngineError> {
        self.state.unpublish(&sandbox.name);
        self.state.disown(&sandbox.id);
        let doomed = self.state.condemn(&sandbox.id)?;
        self.store.delete(&sandbox.id)?;
        self.unbind_in(sandbox, &doomed);
        self.forget_size();
        // What cannot be deleted now is found again by the next command.
        let _ = remove::tree(&doomed);
        Ok(())
    }
}
