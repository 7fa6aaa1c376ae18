//! Files without a name: they take room as long as somebody holds them open, and no walk finds them.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use whatif_sys::open_files::compare_tables;

use crate::server::numbering;
use crate::server::processes::unless_gone;

const TMPFS: u64 = 0x0102_1994;

#[derive(Clone, Copy, Default)]
pub(super) struct Nameless {
    /// `memfd`s. (What was deleted from a file system that is in memory is counted there.)
    pub in_memory: u64,
    pub on_disk: u64,
}

/// A process whose descriptors are closed to us is not counted; that the kernel does not answer at all is an error.
pub(super) fn measure() -> io::Result<Nameless> {
    let mut counted = HashSet::new();
    let mut found = Nameless::default();
    for process in numbering::all()? {
        for table in tables(&process.path)? {
            for descriptor in numbers(&table)? {
                // Closed meanwhile, or behind what does not let us look: a file of ours without a name does.
                let Ok(metadata) = fs::metadata(&descriptor) else { continue };
                if !metadata.is_file() || metadata.nlink() > 0 || !counted.insert((metadata.dev(), metadata.ino())) {
                    continue;
                }
                let bytes = metadata.blocks() * 512;
                if !rustix::fs::statfs(&descriptor).is_ok_and(|s| s.f_type as u64 == TMPFS) {
                    found.on_disk += bytes;
                } else if fs::read_link(&descriptor).is_ok_and(|target| target.as_os_str().as_bytes().starts_with(b"/memfd:")) {
                    found.in_memory += bytes;
                }
            }
        }
    }
    Ok(found)
}

/// Links of a directory of threads with a single one in it.
const ONE_THREAD: u64 = 3;

/// Where the open files of a process are listed: those that its threads share, and those that a thread has for itself.
fn tables(process: &Path) -> io::Result<Vec<PathBuf>> {
    let threads = process.join("task");
    let Some(metadata) = unless_gone(fs::metadata(&threads))? else { return Ok(Vec::new()) };
    if metadata.nlink() <= ONE_THREAD {
        return Ok(vec![process.join("fd")]);
    }
    let mut tables = Vec::new();
    // One thread for each table, in the kernel's order of tables: a thousand threads do not cost a thousand lists, and a thousand
    // tables not a million comparisons.
    let mut known: Vec<i32> = Vec::new();
    for thread in numbers(&threads)? {
        let Some(id) = number(thread.file_name()) else { continue };
        let mut is_told = true;
        if numbering::is_anothers() {
            // The kernel does not know the threads by these numbers here.
            tables.push(thread.join("fd"));
            continue;
        }
        let place = known.binary_search_by(|other| {
            compare_tables(*other, id).unwrap_or_else(|_| {
                is_told = false;
                Ordering::Equal
            })
        });
        match place {
            Ok(_) if is_told => continue,
            Err(place) if is_told => known.insert(place, id),
            // One of the two is gone or closed to us, and the others may be in no order any more: this one is the first again.
            _ => known = vec![id],
        }
        tables.push(thread.join("fd"));
    }
    Ok(tables)
}

/// What is named by a number: processes, threads, descriptors. Nothing where we may not look.
pub(super) fn numbers(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match unless_gone(fs::read_dir(directory)) {
        Ok(Some(entries)) => entries,
        Ok(None) => return Ok(Vec::new()),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut numbers = Vec::new();
    for entry in entries {
        let Some(entry) = unless_gone(entry)? else { break };
        if number(Some(&entry.file_name())).is_some() {
            numbers.push(entry.path());
        }
    }
    Ok(numbers)
}

fn number(name: Option<&OsStr>) -> Option<i32> {
    name?.to_str()?.parse().ok()
}
