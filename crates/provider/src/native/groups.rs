//! The names of the control groups of sandboxes. A group that limits a sandbox and one that holds it still have the same name, so that
//! both are found by it.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use whatif_types::SandboxId;

/// Of all groups of a state directory, and of no other.
pub fn prefix(state: &Path) -> io::Result<String> {
    let metadata = fs::metadata(state)?;
    Ok(format!("whatif-{:x}-{:x}-", metadata.dev(), metadata.ino()))
}

pub fn name(state: &Path, id: &SandboxId) -> io::Result<String> {
    Ok(format!("{}{id}", prefix(state)?))
}
