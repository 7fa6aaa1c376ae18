//! How much is kept for a sandbox. It is part of what the sandbox takes on the disk, and larger than its change where that made a file
//! shorter.

use std::collections::HashSet;
use std::io;
use std::os::unix::fs::MetadataExt;

use whatif_sys::absence::{self, OrAbsent};

use super::Bases;
use super::writer::numbers;

impl Bases {
    /// From now on, no file is kept with which this would be more than so many bytes; such a file is known by its hash alone.
    pub fn keep_at_most(&mut self, bytes: Option<u64>) {
        self.most = bytes;
    }

    /// What may still be kept, besides what all directories of the chain have.
    pub(super) fn left(&self) -> io::Result<u64> {
        let Some(most) = self.most else { return Ok(u64::MAX) };
        let (mut taken, mut counted) = (0, HashSet::new());
        for directory in &self.directories {
            let Some(numbers) = numbers(directory).or_absent()? else { continue };
            for number in numbers {
                let kept = absence::look(&directory.join(number.to_string()))?;
                // One file may serve several directories.
                if let Some(kept) = kept.filter(|kept| counted.insert((kept.dev(), kept.ino()))) {
                    taken += kept.blocks() * 512;
                }
            }
        }
        Ok(most.saturating_sub(taken))
    }
}
