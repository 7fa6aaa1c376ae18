//! All sandboxes at a glance.

use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use serde::Serialize;
use whatif_types::sandbox::StopReason;
use whatif_types::timestamp::rfc3339;
use whatif_types::{LayerId, Sandbox, Status};

use crate::EngineError;
use crate::ground::{GroundError, intact};
use crate::lifecycle::Lifecycle;
use crate::missing::Missing;

/// One line of `ls`; the order of fields is that of the documented JSON.
#[derive(Clone, Debug, Serialize)]
pub struct Listed {
    pub id: String,
    pub name: String,
    pub status: Status,
    pub provider: String,
    #[serde(with = "whatif_types::text::path")]
    pub project: PathBuf,
    pub created_at: String,
    pub changed_files: u64,
    pub size_bytes: u64,
    pub pids: usize,
    pub labels: BTreeMap<String, String>,
    /// What of it should be in the state directory and is not.
    pub missing: Vec<Missing>,
    #[serde(skip)]
    pub created_ms: u64,
}

/// What was found out, for all that stand on the same layers: a hundred forks are looked at once.
#[derive(Default)]
struct Known {
    /// Changed files and bytes of stacks, for those that changed nothing since.
    changes: HashMap<(PathBuf, Vec<LayerId>), (u64, u64)>,
    layers: intact::Known,
}

impl Lifecycle {
    /// `whatif ls`: newest first.
    pub fn list(&self) -> Result<Vec<Listed>, EngineError> {
        let mut known = Known::default();
        let all =
            self.ground.store.list()?.into_iter().map(|sandbox| self.listed_beside(self.ground.refreshed(sandbox)?, &mut known));
        // One that went meanwhile is not there.
        all.filter(|listed| !matches!(listed, Err(EngineError::Ground(GroundError::NoSuchSandbox { .. })))).collect()
    }

    /// The names alone, which nothing has to be looked at for.
    pub fn names(&self) -> Result<Vec<String>, EngineError> {
        Ok(self.ground.store.list()?.into_iter().map(|sandbox| sandbox.name).collect())
    }

    /// The line for one sandbox.
    pub fn listed(&self, sandbox: Sandbox) -> Result<Listed, EngineError> {
        self.listed_beside(sandbox, &mut Known::default())
    }

    /// The line for one sandbox among others. A running one is looked at; for a stopped one the record is true.
    fn listed_beside(&self, sandbox: Sandbox, known: &mut Known) -> Result<Listed, EngineError> {
        let missing = self.ground.missing_while_it_moves(&sandbox, &mut known.layers)?;
        let (mut changed_files, mut size_bytes, mut pids) = (sandbox.details.changed_files, sandbox.details.size_bytes, 0);
        if sandbox.status == Status::Active {
            // One that cannot be examined must not keep the others from being listed.
            if let Ok(now) = self.summarize_beside(&sandbox, known) {
                (changed_files, size_bytes) = now;
            }
            pids = self.ground.connect(&sandbox).and_then(|mut client| Ok(client.list()?.len())).unwrap_or(0);
        }
        if sandbox.details.stop_reason == Some(StopReason::NotStarted)
            && let Ok((now, _)) = self.summarize_beside(&sandbox, known)
        {
            changed_files = now;
        }
        // What lies in layers was changed by it, or by what it came from.
        for layer in &sandbox.details.position.stack {
            size_bytes += self.ground.layer_size(layer).map_or(0, |(_, bytes)| bytes);
        }
        Ok(Listed {
            id: sandbox.id.to_string(),
            name: sandbox.name,
            status: sandbox.status,
            provider: sandbox.provider,
            project: sandbox.project,
            created_at: rfc3339(sandbox.created_at),
            changed_files,
            size_bytes,
            pids,
            labels: sandbox.details.labels,
            missing,
            created_ms: sandbox.created_at,
        })
    }

    fn summarize_beside(&self, sandbox: &Sandbox, known: &mut Known) -> Result<(u64, u64), EngineError> {
        let look = || self.ground.summarize(sandbox).map(|summary| (summary.changed_files, summary.size_bytes));
        if !self.ground.is_as_it_began(sandbox)? {
            return look();
        }
        match known.changes.entry((sandbox.project.clone(), sandbox.details.position.stack.clone())) {
            Entry::Occupied(entry) => Ok(*entry.get()),
            Entry::Vacant(entry) => Ok(*entry.insert(look()?)),
        }
    }
}
