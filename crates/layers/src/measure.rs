//! How much a layer or a head takes on the disk.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use whatif_sys::absence::{MeansAbsent, OrAbsent};

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
            // Closed by the sandbox; what is in it counts for nothing.
            Err(error) if error.means_absent() || error.kind() == io::ErrorKind::PermissionDenied => continue,
            Err(error) => return Err(on("list", &directory)(error)),
        };
        for entry in entries {
            let entry = entry.map_err(on("list", &directory))?;
            let metadata = match entry.metadata().or_absent() {
                Ok(Some(metadata)) => metadata,
                Ok(None) => continue,
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => continue,
                Err(error) => return Err(on("examine", &entry.path())(error)),
            };
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
