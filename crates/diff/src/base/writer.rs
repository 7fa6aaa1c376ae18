//! Appends to a `base/` directory, one command at a time.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};

use super::index::{self, Line};
use crate::change::State;
use crate::marks::Marks;
use crate::node::Kind;
use crate::{attributes, content};

/// Longer text is rarely merged by lines; only its identity is kept.
const LONGEST_KEPT: u64 = 4 << 20;

pub(super) struct Writer {
    directory: PathBuf,
    index: File,
    lines: Vec<u8>,
    next: u64,
}

impl Writer {
    /// Waits for whoever else is writing.
    pub(super) fn begin(directory: &Path) -> io::Result<Self> {
        let path = directory.join(index::FILE);
        let index = loop {
            make(directory)?;
            let index = match OpenOptions::new().append(true).create(true).mode(0o600).open(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && directory.parent().is_some_and(Path::is_dir) => continue,
                other => other?,
            };
            flock(&index, FlockOperation::LockExclusive)?;
            // It may have been frozen in a layer while we waited.
            let is_there = fs::metadata(&path).is_ok_and(|now| index.metadata().is_ok_and(|held| held.ino() == now.ino()));
            if is_there {
                break index;
            }
        };
        // What is appended to a line that a crash cut short would be read as its rest.
        let bytes = fs::read(&path)?;
        let whole = index::whole(&bytes);
        if whole < bytes.len() {
            index.set_len(whole as u64)?;
        }
        let next = numbers(directory)?.max().map_or(0, |n| n + 1);
        Ok(Self { directory: directory.to_owned(), index, lines: Vec::new(), next })
    }

    /// The number of a copy of a file or a link, if it is worth keeping.
    pub(super) fn keep(&mut self, before: &State) -> io::Result<Option<u64>> {
        match before.node.kind {
            Kind::Link => self.keep_link(before),
            _ => self.keep_text(before),
        }
    }

    /// Kept as what it is, so that it is read like any other.
    fn keep_link(&mut self, before: &State) -> io::Result<Option<u64>> {
        let Ok(target) = before.target() else { return Ok(None) };
        let number = self.next;
        symlink(target, self.directory.join(number.to_string()))?;
        self.next += 1;
        Ok(Some(number))
    }

    /// The number of a copy of the text, if it is text of sensible length.
    fn keep_text(&mut self, before: &State) -> io::Result<Option<u64>> {
        if before.node.size > LONGEST_KEPT {
            return Ok(None);
        }
        match content::read(&before.at) {
            Ok(bytes) if !whatif_patch::is_binary(&bytes) => {
                let number = self.keep_bytes(&bytes)?;
                attributes::copy(before.attributes(), &self.directory.join(number.to_string()));
                Ok(Some(number))
            }
            // Not readable now means not mergeable later; it stays a change like any other.
            _ => Ok(None),
        }
    }

    pub(super) fn keep_bytes(&mut self, bytes: &[u8]) -> io::Result<u64> {
        let number = self.next;
        let path = self.directory.join(number.to_string());
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        file.write_all(bytes)?;
        self.next += 1;
        Ok(number)
    }

    /// The number of bytes that another directory keeps; none if they are gone.
    pub(super) fn take_over(&mut self, kept: &Path) -> io::Result<Option<u64>> {
        let number = self.next;
        match link_or_copy(kept, &self.directory.join(number.to_string())) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        }
        self.next += 1;
        Ok(Some(number))
    }

    pub(super) fn add(&mut self, line: &Line) {
        index::write(line, &mut self.lines);
    }

    /// The index follows the bytes it speaks of.
    pub(super) fn end(mut self) -> io::Result<()> {
        self.index.write_all(&self.lines)
    }
}

pub(crate) fn make(directory: &Path) -> io::Result<()> {
    match fs::DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

/// Names of the files with bytes.
pub(super) fn numbers(directory: &Path) -> io::Result<impl Iterator<Item = u64>> {
    Ok(fs::read_dir(directory)?.filter_map(|e| e.ok()?.file_name().to_str()?.parse::<u64>().ok()))
}

/// Kept bytes are never written again, so one file may serve several directories.
pub(super) fn link_or_copy(from: &Path, to: &Path) -> io::Result<()> {
    match fs::hard_link(from, to) {
        Err(error) if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::AlreadyExists) => {
            if let Ok(target) = fs::read_link(from) {
                return symlink(target, to);
            }
            let mut source = content::open(from)?;
            let mut copy = OpenOptions::new().write(true).create_new(true).mode(0o600).open(to)?;
            io::copy(&mut source, &mut copy)?;
            attributes::copy(&attributes::of(from, Marks::None), to);
            Ok(())
        }
        other => other,
    }
}
