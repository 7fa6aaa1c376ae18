//! Reconciles the state directory with the records and removes what nothing needs.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde::Serialize;
use whatif_types::Status;

use whatif_layers::state_dir::{SandboxLock, Unsettled};

use crate::choice::Choice;
use crate::{Engine, EngineError};

#[derive(Clone, Debug, Default, Serialize)]
pub struct Collected {
    /// Sandboxes that were recorded as running and are not.
    pub found_stopped: Vec<String>,
    /// Records whose directory is gone.
    pub forgotten: Vec<String>,
    /// Directories no record knows. They may hold work, so they are named, not deleted.
    #[serde(with = "whatif_types::text::paths")]
    pub unknown: Vec<PathBuf>,
    pub dry_run: bool,
}

impl Engine {
    /// `whatif gc`. (What crashes left is repaired before any command, so here it is done already.)
    pub fn collect(&self, dry_run: bool) -> Result<Collected, EngineError> {
        let mut collected = Collected { dry_run, ..Collected::default() };
        let settled: BTreeSet<_> = self.state.settled()?.into_iter().collect();
        let mut known = BTreeSet::new();
        for sandbox in self.store.list()? {
            let was_active = sandbox.status == Status::Active;
            let sandbox = if dry_run { sandbox } else { self.refreshed(sandbox)? };
            if was_active && sandbox.status == Status::Stopped {
                collected.found_stopped.push(sandbox.name.clone());
            }
            if self.state.find(&sandbox.id).is_none() {
                collected.forgotten.push(sandbox.name.clone());
                if !dry_run {
                    self.store.delete(&sandbox.id)?;
                }
                continue;
            }
            known.insert(sandbox.id);
        }
        // Recovery has run already; what is still here and not being worked on resisted it.
        for unsettled in self.state.unsettled()? {
            let (path, lock) = match unsettled {
                Unsettled::Sandbox(id) => (self.state.transient().join(id.as_str()), self.state.inherit(&id)?),
                Unsettled::Apply(path) | Unsettled::Shift(path) | Unsettled::Layers(path) => {
                    (path.clone(), SandboxLock::take(&path)?)
                }
            };
            if lock.is_some() {
                collected.unknown.push(path);
            }
        }
        let unknown = settled.difference(&known).map(|id| self.state.sandboxes().join(id.as_str()));
        collected.unknown.extend(unknown);
        if !dry_run {
            // A better way may work by now.
            Choice::forget(&self.context.state_dir);
        }
        Ok(collected)
    }
}
