//! SQLite databases that are in use in reality. What was written to one last is in a journal beside it, and is brought into whatever
//! file has its name then: one that was exchanged meanwhile would be damaged, or lose what it brought.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use whatif_diff::{Kind, State};
use whatif_sys::absence;

const HEADER: &[u8; 16] = b"SQLite format 3\0";
/// A database consists of pages that are multiples of this.
const PAGE: u64 = 512;

/// Whether a file of reality is a database with a journal that is not among what an apply takes along.
pub(super) fn has_open_journal(path: &Path, now: &State, is_taken: impl Fn(&Path) -> bool) -> io::Result<bool> {
    Ok(now.node.kind == Kind::File && is_open(path, &now.at, now.node.size, is_taken)?)
}

/// The same for what an undo puts back.
pub(crate) fn is_open_database(path: &Path, is_taken: impl Fn(&Path) -> bool) -> io::Result<bool> {
    match absence::look(path)?.filter(std::fs::Metadata::is_file) {
        Some(meta) => is_open(path, path, meta.len(), is_taken),
        None => Ok(false),
    }
}

fn is_open(path: &Path, at: &Path, size: u64, is_taken: impl Fn(&Path) -> bool) -> io::Result<bool> {
    if size == 0 || !size.is_multiple_of(PAGE) {
        return Ok(false);
    }
    for journal in ["-wal", "-journal"].map(|suffix| beside(path, suffix)) {
        let holds_something = absence::look(&journal)?.is_some_and(|meta| meta.is_file() && meta.len() > 0);
        if holds_something && !is_taken(&journal) {
            return is_database(at);
        }
    }
    Ok(false)
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    PathBuf::from(name)
}

fn is_database(path: &Path) -> io::Result<bool> {
    let mut start = Vec::with_capacity(HEADER.len());
    File::open(path)?.take(HEADER.len() as u64).read_to_end(&mut start)?;
    Ok(start == HEADER)
}
