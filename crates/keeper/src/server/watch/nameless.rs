//! Files without a name: they take room as long as somebody holds them open, and no walk finds them.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::server::processes::unless_gone;

const TMPFS: u64 = 0x0102_1994;

#[derive(Clone, Copy, Default)]
pub(super) struct Nameless {
    /// `memfd`s. (What was deleted from a file system that is in memory is counted there.)
    pub in_memory: u64,
    pub on_disk: u64,
}

/// A process whose descriptors are closed to us is not counted; that the kernel does not answer at all is an error.
pub(super) fn measure() -> io::Result<Nameless> {
    let mut counted = HashSet::new();
    let mut found = Nameless::default();
    for process in numbers(Path::new("/proc"))?.iter().filter(|p| !p.ends_with("1")) {
        for descriptor in numbers(&process.join("fd"))? {
            // Closed meanwhile, or behind what does not let us look: a file of ours without a name does.
            let Ok(metadata) = fs::metadata(&descriptor) else { continue };
            if !metadata.is_file() || metadata.nlink() > 0 || !counted.insert((metadata.dev(), metadata.ino())) {
                continue;
            }
            let bytes = metadata.blocks() * 512;
            if !rustix::fs::statfs(&descriptor).is_ok_and(|s| s.f_type as u64 == TMPFS) {
                found.on_disk += bytes;
            } else if fs::read_link(&descriptor).is_ok_and(|target| target.as_os_str().as_bytes().starts_with(b"/memfd:")) {
                found.in_memory += bytes;
            }
        }
    }
    Ok(found)
}

fn numbers(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match unless_gone(fs::read_dir(directory)) {
        Ok(Some(entries)) => entries,
        Ok(None) => return Ok(Vec::new()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut numbers = Vec::new();
    for entry in entries {
        let Some(entry) = unless_gone(entry)? else { break };
        if entry.file_name().to_str().is_some_and(|n| n.parse::<u32>().is_ok()) {
            numbers.push(entry.path());
        }
    }
    Ok(numbers)
}
