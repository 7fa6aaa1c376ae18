//! Getting things onto the disk, in order.
//!
//! A journal makes names durable in the order they were changed, but it does so whenever it likes, and it does not wait for the
//! bytes of files. So what must be there before a record speaks of it is flushed before the record is written.

use std::fs::{self, File};
use std::path::Path;

use rustix::fs::{fstatfs, syncfs};
use whatif_sys::absence::OrAbsent;
use whatif_types::copied;

use crate::{PathError, on};

/// Up to this many files are flushed one by one; a flush of the whole file system also waits for everybody else's bytes.
const FEW: usize = 32;

const EXT4: i64 = 0xEF53;
const XFS: i64 = 0x5846_5342;
const TMPFS: i64 = 0x0102_1994;

/// Every name that was changed so far in the file system of this directory, which must be one of those changed last.
pub fn names_in(directory: &Path) -> Result<(), PathError> {
    let opened = File::open(directory).map_err(on("open", directory))?;
    // Flushing the directory takes along whatever the journal has before it. Elsewhere (btrfs, for one) a flush of one directory
    // says nothing about the others.
    let keeps_order = fstatfs(&opened).is_ok_and(|found| [EXT4, XFS, TMPFS].contains(&found.f_type));
    let flushed = if keeps_order { opened.sync_all() } else { syncfs(&opened).map_err(Into::into) };
    flushed.map_err(on("flush", directory))
}

/// Everything in the file system of this directory.
pub fn all_around(directory: &Path) -> Result<(), PathError> {
    let opened = File::open(directory).map_err(on("open", directory))?;
    syncfs(&opened).map_err(on("flush", directory))
}

/// A copy of a tree, and the inventory next to the place where it will be.
pub fn copied(copy: &Path, place: &Path) -> Result<(), PathError> {
    let inventory = copied::beside(place);
    let listed = File::open(&inventory).or_absent().map_err(on("open", &inventory))?;
    listed.map_or(Ok(()), |file| file.sync_all()).map_err(on("flush", &inventory))?;
    tree(copy)
}

/// The bytes and names of a new tree.
pub fn tree(directory: &Path) -> Result<(), PathError> {
    let mut files = Vec::new();
    let mut pending = vec![directory.to_owned()];
    while let Some(next) = pending.pop() {
        for entry in fs::read_dir(&next).map_err(on("list", &next))? {
            let entry = entry.map_err(on("list", &next))?;
            let kind = entry.file_type().map_err(on("examine", &entry.path()))?;
            if kind.is_dir() {
                pending.push(entry.path());
            } else if kind.is_file() {
                files.push(entry.path());
            }
            if files.len() + pending.len() > FEW {
                return all_around(directory);
            }
        }
    }
    for file in files {
        File::open(&file).and_then(|f| f.sync_all()).map_err(on("flush", &file))?;
    }
    names_in(directory)
}
