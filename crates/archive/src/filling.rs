//! A new file, as its content arrives.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use crate::error::{ArchiveError, on};

/// Shorter runs of zeros are not worth a hole.
const PAGE: usize = 4096;

#[derive(Debug)]
pub(crate) struct Filling {
    file: File,
    path: PathBuf,
    at: u64,
}

impl Filling {
    /// `path` is for messages.
    pub(crate) fn new(file: File, path: PathBuf) -> Self {
        Self { file, path, at: 0 }
    }

    /// Pieces that are all zeros become holes: a sparse image shall not fill the disk.
    pub(crate) fn put(&mut self, piece: &[u8]) -> Result<(), ArchiveError> {
        if piece.len() < PAGE || piece.iter().any(|b| *b != 0) {
            self.file.write_all_at(piece, self.at).map_err(on("write", &self.path))?;
        }
        self.at += piece.len() as u64;
        Ok(())
    }

    /// A hole at the end has to be said.
    pub(crate) fn finish(self) -> Result<File, ArchiveError> {
        self.file.set_len(self.at).map_err(on("write", &self.path))?;
        Ok(self.file)
    }
}
