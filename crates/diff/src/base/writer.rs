//! Appends to a `base/` directory, one command at a time.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use whatif_overlay::Format;
use whatif_sys::absence::{self, MeansAbsent};

use super::index::{self, Line};
use super::record::Hash;
use super::unshown;
use crate::change::State;
use crate::node::Kind;
use crate::{attributes, content, git_index};

/// Longer text is rarely merged by lines; only its identity is kept.
pub const LONGEST_KEPT: u64 = 4 << 20;

/// Longer files are known by their times alone: reading them takes longer than it is worth.
const LONGEST_HASHED: u64 = 64 << 20;

/// What is kept of one file.
#[derive(Default)]
pub(super) struct Kept {
    pub content: Option<u64>,
    pub hash: Option<Hash>,
}

/// Of a file's bytes, unless it is too long.
pub(super) fn hash(state: &State, longest: u64) -> io::Result<Option<Hash>> {
    if state.node.kind != Kind::File || state.node.size > longest {
        return Ok(None);
    }
    state.hash().map(Some)
}

/// The same, unless it is closed to this user or went meanwhile.
pub(super) fn hash_if_open(state: &State, longest: u64) -> io::Result<Option<Hash>> {
    match hash(state, longest) {
        Err(error) if error.means_absent() || is_closed(&error) => Ok(None),
        other => other,
    }
}

pub(super) struct Writer {
    directory: PathBuf,
    index: File,
    lines: Vec<u8>,
    next: u64,
    /// Of what lies here, nothing is kept.
    pub(super) unshown: Vec<PathBuf>,
    /// How many bytes of files may still be kept.
    pub(super) left: u64,
}

impl Writer {
    /// Waits for whoever else is writing.
    pub(super) fn begin(directory: &Path) -> io::Result<Self> {
        let path = directory.join(index::FILE);
        let index = loop {
            make(directory)?;
            let index = match OpenOptions::new().append(true).create(true).mode(0o600).open(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && has_parent(directory)? => continue,
                other => other?,
            };
            flock(&index, FlockOperation::LockExclusive)?;
            // It may have been frozen in a layer while we waited.
            if absence::look(&path)?.map(|now| now.ino()) == Some(index.metadata()?.ino()) {
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
        Ok(Self { directory: directory.to_owned(), index, lines: Vec::new(), next, unshown: Vec::new(), left: u64::MAX })
    }

    /// Keeps what a file or a link is: a copy if it is worth one, else what its bytes can be recognized by.
    pub(super) fn keep(&mut self, before: &State) -> io::Result<Kept> {
        // By where it was read: the sandbox may have it under another name.
        if unshown::is_among(&self.unshown, &before.at) {
            return Ok(Kept::default());
        }
        match before.node.kind {
            Kind::Link => Ok(Kept { content: self.keep_link(before)?, hash: None }),
            Kind::File => self.keep_file(before),
            _ => Ok(Kept::default()),
        }
    }

    /// Kept as what it is, so that it is read like any other.
    fn keep_link(&mut self, before: &State) -> io::Result<Option<u64>> {
        let target = match before.target() {
            // Gone meanwhile, so this is not what it was.
            Err(unreadable) if unreadable.cause.means_absent() => return Ok(None),
            other => other?,
        };
        let number = self.next;
        symlink(target, self.directory.join(number.to_string()))?;
        self.next += 1;
        Ok(Some(number))
    }

    /// Text of sensible length is copied, and git's index, which is merged by what it means.
    fn keep_file(&mut self, before: &State) -> io::Result<Kept> {
        let is_index = git_index::is_one(&before.at);
        let longest = if is_index { git_index::LONGEST } else { LONGEST_KEPT };
        if before.node.size > longest.min(self.left) {
            return Ok(Kept { content: None, hash: hash_if_open(before, LONGEST_HASHED)? });
        }
        match content::read(&before.at) {
            Ok(bytes) if is_index || !whatif_patch::is_binary(&bytes) => {
                let number = self.keep_bytes(&bytes)?;
                self.left = self.left.saturating_sub(bytes.len() as u64);
                attributes::copy(before.attributes()?, &self.directory.join(number.to_string()));
                Ok(Kept { content: Some(number), hash: None })
            }
            // What is binary is not merged, and neither is what is closed to this user, or went meanwhile.
            Ok(bytes) => Ok(Kept { content: None, hash: Some(Sha256::digest(&bytes).into()) }),
            Err(error) if error.means_absent() || is_closed(&error) => Ok(Kept::default()),
            Err(error) => Err(error),
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

fn has_parent(directory: &Path) -> io::Result<bool> {
    directory.parent().map_or(Ok(false), absence::is_dir)
}

fn is_closed(error: &io::Error) -> bool {
    // All but the first: it is not the file any more that was looked at.
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::InvalidInput | io::ErrorKind::FileTooLarge)
        || Errno::from_io_error(error) == Some(Errno::LOOP)
}

/// Names of the files with bytes.
pub(super) fn numbers(directory: &Path) -> io::Result<impl Iterator<Item = u64>> {
    let names = fs::read_dir(directory)?.map(|entry| entry.map(|e| e.file_name())).collect::<io::Result<Vec<_>>>()?;
    Ok(names.into_iter().filter_map(|name| name.to_str()?.parse::<u64>().ok()))
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
            attributes::copy(&attributes::of(from, Format::None)?, to);
            Ok(())
        }
        other => other,
    }
}
