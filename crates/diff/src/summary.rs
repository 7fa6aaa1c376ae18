//! How much a sandbox changed, and whether it matters.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::change::ChangeKind;
use crate::noise::is_noise;
use crate::scan::Found;

/// One of the first few changes, for a report.
#[derive(Clone, Debug, Serialize)]
pub struct Example {
    pub kind: ChangeKind,
    #[serde(with = "whatif_types::text::path")]
    pub path: PathBuf,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    pub changed_files: u64,
    /// Disk space of the files in the head.
    pub size_bytes: u64,
    /// Whether there is more than caches and logs.
    pub matters: bool,
    /// The first few that matter.
    pub examples: Vec<Example>,
}

const MOST_EXAMPLES: usize = 5;

#[must_use]
pub fn summarize(found: &Found, project: &Path) -> Summary {
    let mut summary = Summary { changed_files: found.changes.len() as u64, size_bytes: found.bytes, ..Summary::default() };
    for change in found.changes.iter().filter(|c| !is_noise(&c.path, project)) {
        summary.matters = true;
        if summary.examples.len() == MOST_EXAMPLES {
            break;
        }
        summary.examples.push(Example { kind: change.kind, path: change.path.clone() });
    }
    summary.matters |= !found.unreadable.is_empty();
    summary
}
