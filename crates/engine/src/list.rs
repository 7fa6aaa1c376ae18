//! All sandboxes at a glance.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde::Serialize;
use whatif_types::sandbox::StopReason;
use whatif_types::timestamp::rfc3339;
use whatif_types::{Sandbox, Status};

use crate::{Engine, EngineError};

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
    #[serde(skip)]
    pub created_ms: u64,
}

impl Engine {
    /// `whatif ls`: newest first.
    pub fn list(&self) -> Result<Vec<Listed>, EngineError> {
        let all = self.store.list()?.into_iter().map(|sandbox| self.listed(self.refreshed(sandbox)?));
        // One that went meanwhile is not there.
        all.filter(|listed| !matches!(listed, Err(EngineError::NoSuchSandbox { .. }))).collect()
    }

    /// The line for one sandbox. A running one is looked at; for a stopped one the record is true.
    pub fn listed(&self, sandbox: Sandbox) -> Result<Listed, EngineError> {
        let (mut changed_files, mut size_bytes, mut pids) = (sandbox.details.changed_files, sandbox.details.size_bytes, 0);
        if sandbox.status == Status::Active {
            // One that cannot be examined must not keep the others from being listed.
            if let Ok(summary) = self.summarize(&sandbox) {
                (changed_files, size_bytes) = (summary.changed_files, summary.size_bytes);
            }
            pids = self.connect(&sandbox).and_then(|mut client| Ok(client.list()?.len())).unwrap_or(0);
        }
        if sandbox.details.stop_reason == Some(StopReason::NotStarted)
            && let Ok(summary) = self.summarize(&sandbox)
        {
            changed_files = summary.changed_files;
        }
        // What lies in layers was changed by it, or by what it came from.
        for layer in &sandbox.details.position.stack {
            size_bytes += self.layer_size(layer).map_or(0, |(_, bytes)| bytes);
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
            created_ms: sandbox.created_at,
        })
    }
}
