//! The plain bytes of an archive as they come in: entries, content, the end. Nothing is read that the limits do not allow.

use std::io::Read;

use crate::budget::Budget;
use crate::codec;
use crate::entry::Entry;
use crate::error::{ArchiveError, shown};
use crate::frames;
use crate::header::{self, BLOCK};

const PIECE: usize = 128 << 10;

#[derive(Debug)]
pub(crate) struct Source<'b, R> {
    input: R,
    budget: &'b mut Budget,
}

impl<'b, R: Read> Source<'b, R> {
    pub(crate) fn new(input: R, budget: &'b mut Budget) -> Self {
        Self { input, budget }
    }

    pub(crate) fn into_inner(self) -> R {
        self.input
    }

    /// The next entry, within the limits; nothing at the end, which is read as well.
    pub(crate) fn entry(&mut self) -> Result<Option<Entry>, ArchiveError> {
        match codec::decode(&mut |buffer| self.fill(buffer))? {
            Some(entry) => {
                self.budget.take_entry(&entry.path)?;
                Ok(Some(entry))
            }
            None => self.end().map(|()| None),
        }
    }

    /// Hands over the content of the entry that was read last, in pieces.
    pub(crate) fn content(
        &mut self,
        entry: &Entry,
        take: &mut dyn FnMut(&[u8]) -> Result<(), ArchiveError>,
    ) -> Result<(), ArchiveError> {
        let mut left = entry.kind.size();
        // All of it must fit before the first piece is written.
        self.budget.has_room(left, 0)?;
        let mut piece = vec![0; left.min(PIECE as u64) as usize];
        while left > 0 {
            let length = left.min(PIECE as u64) as usize;
            self.fill(&mut piece[..length])?;
            take(&piece[..length])?;
            left -= length as u64;
        }
        self.padding(entry)
    }

    fn padding(&mut self, entry: &Entry) -> Result<(), ArchiveError> {
        let mut padding = [0; BLOCK];
        let padding = &mut padding[..header::padding(entry.kind.size())];
        self.fill(padding)?;
        if padding.iter().any(|b| *b != 0) {
            return Err(ArchiveError::Malformed { name: shown(&entry.path), why: "has something between its end and the next" });
        }
        Ok(())
    }

    /// The second of two empty blocks.
    fn end(&mut self) -> Result<(), ArchiveError> {
        let mut block = [0; BLOCK];
        self.fill(&mut block)?;
        if block == [0; BLOCK] { Ok(()) } else { Err(ArchiveError::Trailing) }
    }

    fn fill(&mut self, buffer: &mut [u8]) -> Result<(), ArchiveError> {
        self.budget.take_bytes(buffer.len() as u64)?;
        self.input.read_exact(buffer).map_err(frames::failed)
    }
}
