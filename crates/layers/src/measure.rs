//! How much a layer or a head takes on the disk.

use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::{PathError, on};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    pub files: u64,
    /// Blocks on the disk; a file with several names counts once.
    pub bytes: u64,
}

/// Measures everything beneath a directory. What vanishes meanwhile counts for nothing.
pub fn tree(directory: &Path) -> Result<Measured, PathError> {
    let mut measured = Measured::default();
    let mut pending = vec![directory.to_owned()];
    let mut linked = HashSet::new();
    while let Some(directory) = pending.pop() {
        let entries = match fs::read_dir(&directory) {
            Ok(entries) => entries,
            Err(error) if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::PermissionDenied) => continue,
            Err(error) => return Err(on("list", &directory)(error)),
        };
        for entry in entries.filter_map(Result::ok) {
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() {
                pending.push(entry.path());
            } else {
                measured.files += 1;
            }
            if metadata.nlink() < 2 || metadata.is_dir() || linked.insert(metadata.ino()) {
                measured.bytes += metadata.blocks() * 512;
            }
        }
    }
    Ok(measured)
}
