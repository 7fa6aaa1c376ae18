//! Which backend and identity work on this machine, remembered for a while.
//!
//! Normally nothing is stored: the best way is tried and works. Only when it failed once is there a note, so that the next
//! command does not fail first.

use std::path::Path;

use serde::{Deserialize, Serialize};
use whatif_types::Backend;

use crate::private_file;

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Choice {
    pub backend: Backend,
    /// Owners cannot be mapped; ids are the same inside and outside.
    pub same_ids: bool,
    /// Why not the best.
    pub reason: Option<String>,
    pub boot_id: String,
    /// When it was noted, in milliseconds since 1970.
    pub noted_at: u64,
}

const FILE: &str = "fallback.json";
/// Then the best way is tried again: what stood in its way may be gone.
const VALID_MS: u64 = 5 * 60 * 1000;

impl Choice {
    pub(crate) fn load(state_dir: &Path) -> Self {
        let stored = std::fs::read(state_dir.join(FILE)).ok().and_then(|text| serde_json::from_slice::<Self>(&text).ok());
        stored.filter(|c| c.boot_id == boot_id() && crate::now().saturating_sub(c.noted_at) < VALID_MS).unwrap_or_default()
    }

    /// Failing to store only costs the next command a failed try.
    pub(crate) fn store(&self, state_dir: &Path) {
        let stamped = Self { boot_id: boot_id(), noted_at: crate::now(), ..self.clone() };
        if let Ok(text) = serde_json::to_vec(&stamped) {
            let _ = private_file::write(&state_dir.join(FILE), &text);
        }
    }

    pub(crate) fn forget(state_dir: &Path) {
        let _ = std::fs::remove_file(state_dir.join(FILE));
    }
}

fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}
