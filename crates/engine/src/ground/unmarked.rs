//! What a sandbox deleted without a mark in its head that says so.
//!
//! A process that stands in a directory keeps the kernel from finding out that reality has that directory, too, since an apply. What
//! is deleted in there leaves nothing behind, as there seems to be nothing to hide. A look knows it all the same
//! (`diff/src/scan/names.rs`), but a new view of the head would show it again; so it gets its mark while nothing is mounted.

use std::fs;
use std::path::Path;

use rustix::io::Errno;
use whatif_overlay::whiteout;
use whatif_sys::absence::{self, OrAbsent};
use whatif_sys::direct;
use whatif_types::Sandbox;

use crate::EngineError;
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
    /// Makes the marks. Nothing of the sandbox is mounted, and the caller holds its lock.
    pub(crate) fn mark_deleted(&self, sandbox: &Sandbox) -> Result<(), EngineError> {
        let directory = self.directory(sandbox)?;
        if !is_noted(&directory) {
            return Ok(());
        }
        let head = directory.join("head");
        for path in self.look(sandbox)?.unmarked {
            let Some((tree, inside)) = in_tree(sandbox, &path) else { continue };
            let place = head.join(tree.to_string()).join(inside);
            let (Some(above), Some(name)) = (place.parent(), place.file_name()) else { continue };
            match direct::hold(above).and_then(|above| whiteout::make(above, name)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(errno) => return Err(EngineError::io("mark as deleted", &place, errno.into())),
            }
        }
        let note = directory.join(FILE);
        fs::remove_file(&note).or_absent().map_err(|e| EngineError::io("remove", &note, e))?;
        Ok(())
    }
}
