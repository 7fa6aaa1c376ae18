//! What a sandbox deleted without a mark in its head that says so.
//!
//! A process that stands in a directory keeps the kernel from finding out that reality has that directory, too, since an apply. What
//! is deleted in there leaves nothing behind, as there seems to be nothing to hide. A look knows it all the same
//! (`diff/src/scan/names.rs`), but a new view of the head would show it again; so it gets its mark while nothing is mounted.

use std::fs;
use std::path::Path;

use whatif_overlay::whiteout;
use whatif_sys::{absence, direct};
use whatif_types::Sandbox;

use crate::ground::Ground;
use crate::roots::in_tree;

/// In the sandbox's directory, empty: a look found such things. Which, the next one finds again.
const FILE: &str = "unmarked";

/// Notes that a look found some. Without the note they are only seen inside again.
pub(crate) fn note(directory: &Path) {
    let _ = fs::write(directory.join(FILE), "");
}

/// Whether a look found some since they were marked. What cannot be looked at says so.
pub(crate) fn is_noted(directory: &Path) -> bool {
    absence::exists(&directory.join(FILE)).unwrap_or(true)
}

impl Ground {
    /// Makes the marks. Nothing of the sandbox is mounted, and the caller holds its lock. What gets none, as in a directory that the
    /// sandbox closed, or on a full disk, is seen inside again and known to be deleted all the same: nothing to refuse a start for.
    pub(crate) fn mark_deleted(&self, sandbox: &Sandbox, directory: &Path) {
        if !is_noted(directory) {
            return;
        }
        let Ok(found) = self.look(sandbox) else { return };
        let head = directory.join("head");
        for path in found.unmarked {
            let Some((tree, inside)) = in_tree(sandbox, &path) else { continue };
            let place = head.join(tree.to_string()).join(inside);
            if let (Some(above), Some(name)) = (place.parent(), place.file_name()) {
                let _ = direct::hold(above).and_then(|above| whiteout::make(above, name));
            }
        }
        let _ = fs::remove_file(directory.join(FILE));
    }
}
