//! Directories of sandboxes that changed nothing, kept for the next ones.
//!
//! Making and deleting files is what a run on a disk costs most: ext4, for one, does not give out the place of a file that was
//! just deleted and searches on instead, longer the more was deleted lately. A spare saves half of the files of a run.
//! What a sandbox could have touched (its heads) is never used again; only the directories around it are.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, unlinkat};

use crate::state_dir::{FAREWELL, SandboxLock};
use crate::{PathError, on, remove};

const MOST: usize = 8;
const UNFINISHED: &str = "new-";

/// Claims a spare directory and moves it to `to`. Its lock is held before anybody can find it there. One that cannot be had, for
/// whatever reason, is made instead.
pub(crate) fn claim(spares: &Path, to: &Path) -> Option<SandboxLock> {
    let is_finished = |e: &fs::DirEntry| !e.file_name().as_encoded_bytes().starts_with(UNFINISHED.as_bytes());
    for entry in fs::read_dir(spares).ok()?.filter_map(Result::ok).filter(is_finished) {
        // One that is locked is still being put here, or somebody else's already.
        if let Ok(Some(lock)) = SandboxLock::take(&entry.path())
            && fs::rename(entry.path(), to).is_ok()
        {
            return Some(lock);
        }
    }
    None
}

/// Makes a new directory like a spare one.
pub(crate) fn make(spares: &Path, to: &Path) -> Result<SandboxLock, PathError> {
    let name = to.file_name().unwrap_or(to.as_os_str());
    // Under a name that nobody claims while it is being made.
    let path = spares.join(format!("{UNFINISHED}{}", name.to_string_lossy()));
    for directory in [path.clone(), path.join("head"), path.join("work")] {
        crate::state_dir::make_private(&directory)?;
    }
    let lock = SandboxLock::take(&path)?.ok_or_else(|| on("lock", &path)(std::io::Error::from(std::io::ErrorKind::WouldBlock)))?;
    fs::rename(&path, to).map_err(on("create", to))?;
    Ok(lock)
}

/// Turns the directory of an ended sandbox into a spare one, if it changed nothing. The caller holds its lock.
pub(crate) fn keep(spares: &Path, directory: &Path) -> bool {
    let room = fs::read_dir(spares).is_ok_and(|entries| entries.count() < MOST);
    let name = directory.file_name().unwrap_or(directory.as_os_str());
    room && strip(directory).is_ok() && fs::rename(directory, spares.join(name)).is_ok()
}

/// Leaves `head/` and `work/<tree>/`, and a farewell that nobody wrote, all empty. Fails at the first thing that was changed.
fn strip(directory: &Path) -> Result<(), PathError> {
    for head in children(&directory.join("head"))? {
        unlinkat(CWD, &head, AtFlags::REMOVEDIR).map_err(on("remove", &head))?;
    }
    for work in children(&directory.join("work"))? {
        remove::contents(&work)?;
    }
    for entry in children(directory)? {
        match entry.file_name().and_then(|n| n.to_str()) {
            Some("head" | "work") => {}
            Some(FAREWELL) if fs::metadata(&entry).is_ok_and(|m| m.len() == 0) => {}
            _ => remove_entry(&entry)?,
        }
    }
    Ok(())
}

fn remove_entry(path: &Path) -> Result<(), PathError> {
    match unlinkat(CWD, path, AtFlags::empty()) {
        Err(rustix::io::Errno::ISDIR) => remove::tree(path),
        other => other.map_err(on("remove", path)),
    }
}

fn children(directory: &Path) -> Result<Vec<PathBuf>, PathError> {
    let entries = fs::read_dir(directory).map_err(on("list", directory))?;
    entries.map(|e| e.map(|e| e.path())).collect::<io::Result<_>>().map_err(on("list", directory))
}
