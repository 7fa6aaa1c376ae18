//! Whether the entries of an archive are the layers of its manifest: each once, in order, whole.

use std::slice::Iter;

use crate::digest::LayerDigest;
use crate::entry::{Entry, Kind};
use crate::error::{ArchiveError, shown};
use crate::manifest::{LayerEntry, Manifest};
use crate::names;

#[derive(Debug)]
pub(crate) struct Layers<'m> {
    coming: Iter<'m, LayerEntry>,
    current: Option<Current<'m>>,
}

#[derive(Debug)]
struct Current<'m> {
    expected: &'m LayerEntry,
    digest: LayerDigest,
    files: u64,
    bytes: u64,
    /// The path that came last.
    last: Vec<u8>,
}

impl<'m> Layers<'m> {
    pub(crate) fn new(manifest: &'m Manifest) -> Self {
        Self { coming: manifest.layers.iter(), current: None }
    }

    /// Takes an entry into account, before anything is made of it.
    pub(crate) fn entry(&mut self, entry: &Entry) -> Result<(), ArchiveError> {
        let id = names::layer(&entry.path);
        let is_new = entry.path.len() == id.len() && self.current.as_ref().is_none_or(|c| c.expected.id.as_bytes() != id);
        if is_new {
            self.start(id)?;
        }
        let Some(current) = self.current.as_mut().filter(|c| c.expected.id.as_bytes() == id) else {
            let expected = self.current.as_ref().map_or("the start of a layer".to_owned(), |c| format!("'{}'", c.expected.id));
            return Err(ArchiveError::UnexpectedLayer { layer: shown(id), expected });
        };
        if is_new && entry.kind != Kind::Directory {
            return Err(ArchiveError::NoDirectory { name: shown(&entry.path) });
        }
        current.entry(entry)
    }

    pub(crate) fn content(&mut self, piece: &[u8]) {
        if let Some(current) = &mut self.current {
            current.digest.content(piece);
        }
    }

    /// The archive ends here.
    pub(crate) fn finish(mut self) -> Result<(), ArchiveError> {
        if let Some(last) = self.current.take() {
            last.finish()?;
        }
        match self.coming.next() {
            Some(missing) => Err(ArchiveError::MissingLayer { layer: missing.id.clone() }),
            None => Ok(()),
        }
    }

    fn start(&mut self, id: &[u8]) -> Result<(), ArchiveError> {
        if let Some(before) = self.current.take() {
            before.finish()?;
        }
        match self.coming.next() {
            Some(expected) if expected.id.as_bytes() == id => {
                self.current = Some(Current { expected, digest: LayerDigest::new(), files: 0, bytes: 0, last: Vec::new() });
                Ok(())
            }
            Some(other) => Err(ArchiveError::UnexpectedLayer { layer: shown(id), expected: format!("'{}'", other.id) }),
            None => Err(ArchiveError::UnexpectedLayer { layer: shown(id), expected: "no more".to_owned() }),
        }
    }
}

impl Current<'_> {
    fn entry(&mut self, entry: &Entry) -> Result<(), ArchiveError> {
        if !names::comes_before(&self.last, &entry.path) {
            return Err(ArchiveError::OutOfOrder { name: shown(&entry.path) });
        }
        self.last.clone_from(&entry.path);
        self.files += 1;
        self.bytes = self.bytes.saturating_add(entry.kind.size());
        if self.files > self.expected.files {
            return Err(self.mismatch("it has more entries"));
        }
        if self.bytes > self.expected.bytes {
            return Err(self.mismatch("it has more content"));
        }
        self.digest.entry(entry);
        Ok(())
    }

    fn finish(self) -> Result<(), ArchiveError> {
        if self.files < self.expected.files {
            return Err(self.mismatch("it has fewer entries"));
        }
        if self.bytes < self.expected.bytes {
            return Err(self.mismatch("it has less content"));
        }
        let mismatch = self.mismatch("its digest is another");
        if self.digest.finish() == self.expected.digest { Ok(()) } else { Err(mismatch) }
    }

    fn mismatch(&self, why: &'static str) -> ArchiveError {
        ArchiveError::Mismatch { layer: self.expected.id.clone(), why }
    }
}
