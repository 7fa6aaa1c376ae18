//! Adds up what a plan needs on each file system.

use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use crate::error::Problem;

/// What an entry takes besides its content: its name, its inode, a block that is not full.
const ENTRY: u64 = 4096;

#[derive(Debug, Default)]
struct Need {
    bytes: u64,
    entries: u64,
}

/// By device.
#[derive(Debug, Default)]
pub(crate) struct Needs {
    by_device: BTreeMap<u64, Need>,
    seen: BTreeMap<u64, (PathBuf, u64, Option<u64>)>,
}

impl Needs {
    pub(crate) fn add(&mut self, device: u64, bytes: u64) {
        let need = self.by_device.entry(device).or_default();
        need.bytes = need.bytes.saturating_add(bytes).saturating_add(ENTRY);
        need.entries += 1;
    }

    /// Says where room on a device can be asked about.
    pub(crate) fn place(&mut self, device: u64, descriptor: impl AsFd, path: &Path, is_root: bool) {
        if self.seen.contains_key(&device) {
            return;
        }
        // Where free space cannot be asked for, staging finds out before anything is swapped.
        if let Ok(stat) = rustix::fs::fstatvfs(descriptor) {
            let blocks = if is_root { stat.f_bfree } else { stat.f_bavail };
            // Zero means that the file system does not count them.
            let entries = (stat.f_files > 0).then_some(if is_root { stat.f_ffree } else { stat.f_favail });
            self.seen.insert(device, (path.to_owned(), blocks.saturating_mul(stat.f_frsize), entries));
        }
    }

    pub(crate) fn problems(&self) -> Vec<Problem> {
        let mut problems = Vec::new();
        for (device, need) in &self.by_device {
            let Some((path, bytes, entries)) = self.seen.get(device) else { continue };
            if need.bytes > *bytes {
                let what = format!("has not enough room: {} bytes are needed, {bytes} are free", need.bytes);
                problems.push(Problem::new(path, what, "make room and try again"));
            }
            if entries.is_some_and(|free| need.entries > free) {
                let what = format!("has not enough inodes: {} are needed", need.entries);
                problems.push(Problem::new(path, what, "remove some files and try again"));
            }
        }
        problems
    }
}
