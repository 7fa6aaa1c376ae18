//! How much an archive may cost the one who reads it.

use crate::error::ArchiveError;
use crate::names;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Of the archive when decompressed: content, names, attributes.
    pub bytes: u64,
    /// Files, directories and the like.
    pub entries: u64,
    /// Of one path, counted from the layer's id. The kernel takes no more than 4095.
    pub path_length: usize,
    /// Directories within directories.
    pub depth: usize,
}

impl Default for Limits {
    /// More than a sandbox has, less than fills a large disk by surprise.
    fn default() -> Self {
        Self { bytes: 256 << 30, entries: 20_000_000, path_length: names::LONGEST, depth: 1024 }
    }
}

/// What is left of the limits.
#[derive(Debug)]
pub(crate) struct Budget {
    limits: Limits,
    bytes: u64,
    entries: u64,
}

impl Budget {
    pub(crate) fn new(limits: Limits) -> Self {
        Self { limits, bytes: limits.bytes, entries: limits.entries }
    }

    /// Whether something this large could be read at all. Takes nothing.
    pub(crate) fn has_room(&self, bytes: u64, entries: u64) -> Result<(), ArchiveError> {
        if bytes > self.bytes {
            return Err(ArchiveError::Limit { what: "bytes", limit: self.limits.bytes });
        }
        if entries > self.entries {
            return Err(ArchiveError::Limit { what: "entries", limit: self.limits.entries });
        }
        Ok(())
    }

    pub(crate) fn take_bytes(&mut self, bytes: u64) -> Result<(), ArchiveError> {
        self.has_room(bytes, 0)?;
        self.bytes -= bytes;
        Ok(())
    }

    pub(crate) fn take_entry(&mut self, path: &[u8]) -> Result<(), ArchiveError> {
        self.has_room(0, 1)?;
        self.entries -= 1;
        let limit = self.limits.path_length.min(names::LONGEST);
        if path.len() > limit {
            return Err(ArchiveError::Limit { what: "bytes in a path", limit: limit as u64 });
        }
        if names::depth(path) > self.limits.depth {
            return Err(ArchiveError::Limit { what: "directories within each other", limit: self.limits.depth as u64 });
        }
        Ok(())
    }
}
