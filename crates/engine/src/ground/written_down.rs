//! What the directory of a sandbox says about it, which may be more than the records know.

use std::collections::HashSet;
use std::path::Path;

use whatif_layers::StateDir;
use whatif_types::sandbox::note;
use whatif_types::{LayerId, Sandbox, SandboxId};

use crate::EngineError;
use crate::ground::ledger::{self, Entries};
use crate::ground::{Ground, GroundError};

impl Ground {
    /// Whether a database that was restored from a backup knows less of a sandbox than the sandbox's own directory.
    pub(crate) fn require_current(&self, sandbox: &Sandbox) -> Result<(), EngineError> {
        let Some(directory) = self.state.find(&sandbox.id)? else { return Ok(()) };
        // The end of a ledger is quickly read, however many layers there are. Without one, or if it cannot be read, they are looked at.
        if matches!(ledger::latest(&directory), Ok(Some(latest)) if latest.id == sandbox.id && latest.version <= sandbox.version) {
            return Ok(());
        }
        if self.unknown_layers()?.is_empty() {
            return Ok(());
        }
        let is_behind = entries(&directory, &sandbox.id)?.is_some_and(|e| e.sandbox.version > sandbox.version);
        if is_behind { Err(GroundError::Behind { name: sandbox.name.clone() }.into()) } else { Ok(()) }
    }

    /// The layers that sandboxes need by what their directories say.
    pub(crate) fn layers_written_down(&self) -> Result<HashSet<LayerId>, EngineError> {
        let mut layers = HashSet::new();
        for id in self.state.settled()? {
            let Some(Entries { sandbox, snapshots }) = entries(&self.state.sandboxes().join(id.as_str()), &id)? else { continue };
            layers.extend(sandbox.details.position.stack.into_iter().chain(sandbox.details.position.mounted));
            layers.extend(snapshots.into_iter().flat_map(|s| s.details.stack));
        }
        Ok(layers)
    }
}

/// The copy of its record that a running sandbox has in its directory.
pub(crate) fn noted(directory: &Path) -> Result<Option<Sandbox>, EngineError> {
    let note = StateDir::read_note(directory)?;
    // Earlier versions wrote it as it is in the records.
    Ok(note.and_then(|text| note::read(&text).or_else(|| serde_json::from_slice(&text).ok())))
}

/// What a directory says about its sandbox.
pub(crate) fn entries(directory: &Path, id: &SandboxId) -> Result<Option<Entries>, EngineError> {
    let failed = |e: std::io::Error| EngineError::io("read", directory, e);
    let found = match ledger::read(directory).map_err(failed)? {
        Some(entries) => Some(entries),
        None => noted(directory)?.map(|sandbox| Entries { sandbox, snapshots: Vec::new() }),
    };
    Ok(found.filter(|entries| entries.sandbox.id == *id))
}
