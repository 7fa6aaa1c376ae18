//! Directories of sandboxes that changed nothing, kept for the next ones.
//!
//! Making and deleting files is what a run on a disk costs most: ext4, for one, does not give out the place of a file that was
//! just deleted and searches on instead, longer the more was deleted lately. A spare saves half of the files of a run.
//! What a sandbox could have touched (its heads) is never used again; only the directories around it are.
//!
//! ```text
//! spare/<id>/         ready to be claimed
//! spare/new-<id>/     being made
//! spare/spent-<id>/   of a sandbox whose keeper may not be gone yet
//! ```

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, unlinkat};

use whatif_types::SandboxId;

use crate::state_dir::{FAREWELL, NOTHING, RECORD, SandboxLock};
use crate::{PathError, on, remove};

const MOST: usize = 8;
const UNFINISHED: &str = "new-";
const SPENT: &str = "spent-";
/// Nobody is still at making one after so long.
const LONG_MADE: Duration = Duration::from_secs(600);

/// Claims a spare directory and moves it to `to`. Its lock is held before anybody can find it there. One that cannot be had, for
/// whatever reason, is made instead.
pub(crate) fn claim(spares: &Path, to: &Path) -> Option<SandboxLock> {
    let is_ready = |e: &fs::DirEntry| e.file_name().to_str().is_some_and(|name| SandboxId::parse(name).is_some());
    for entry in fs::read_dir(spares).ok()?.filter_map(Result::ok).filter(is_ready) {
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

/// Turns the directory of an ended sandbox into a spare one, if it changed nothing. The caller holds its lock. Between steps it is
/// asked whether there is time for another one; the rest is for another time.
pub(crate) fn keep(spares: &Path, directory: &Path, has_time: &dyn Fn() -> bool) -> Kept {
    let has_room = || fs::read_dir(spares).is_ok_and(|entries| entries.count() < MOST);
    let room = has_room() || sweep(spares) && has_room();
    let name = directory.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let to = spares.join(name.strip_prefix(SPENT).unwrap_or(name));
    match room.then(|| strip(directory, has_time)) {
        Some(Ok(true)) if fs::rename(directory, to).is_ok() => Kept::Spare,
        Some(Ok(false)) => Kept::Unfinished,
        _ => Kept::Useless,
    }
}

/// Removes what commands that were killed have left of new ones. False: there was nothing.
fn sweep(spares: &Path) -> bool {
    let is_unfinished = |entry: &fs::DirEntry| entry.file_name().as_bytes().starts_with(UNFINISHED.as_bytes());
    let is_old = |entry: &fs::DirEntry| {
        let modified = entry.metadata().and_then(|found| found.modified());
        modified.is_ok_and(|at| at.elapsed().is_ok_and(|age| age > LONG_MADE))
    };
    let left = fs::read_dir(spares).into_iter().flatten().flatten().filter(is_unfinished).filter(is_old);
    // Nothing was ever in them.
    let remove = |path: PathBuf| {
        let _ = (fs::remove_dir(path.join("head")), fs::remove_dir(path.join("work")));
        fs::remove_dir(path).is_ok()
    };
    left.filter(|entry| remove(entry.path())).count() > 0
}

/// What became of a directory that was to be a spare one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    Spare,
    /// There was no time.
    Unfinished,
    /// It can only be deleted.
    Useless,
}

/// Puts the directory of a sandbox aside that is just ending. The caller holds its lock.
pub(crate) fn spend(spares: &Path, directory: &Path, id: &SandboxId) -> Result<(), PathError> {
    let to = spares.join(format!("{SPENT}{id}"));
    fs::rename(directory, &to).map_err(on("put aside", &to))
}

/// What was put aside. What cannot be listed is found another time.
pub(crate) fn spent(spares: &Path) -> Vec<(SandboxId, PathBuf)> {
    let id = |entry: &fs::DirEntry| SandboxId::parse(entry.file_name().to_str()?.strip_prefix(SPENT)?);
    let entries = fs::read_dir(spares).into_iter().flatten().filter_map(Result::ok);
    entries.filter_map(|entry| Some((id(&entry)?, entry.path()))).collect()
}

/// Leaves `head/`, `nothing/` and `work/<tree>/`, a farewell that nobody wrote, all empty, and the place of a record. Fails at the first thing
/// that was changed. False: there was no time.
fn strip(directory: &Path, has_time: &dyn Fn() -> bool) -> Result<bool, PathError> {
    for head in children(&directory.join("head"))? {
        if !has_time() {
            return Ok(false);
        }
        unlinkat(CWD, &head, AtFlags::REMOVEDIR).map_err(on("remove", &head))?;
    }
    for work in children(&directory.join("work"))? {
        if !has_time() {
            return Ok(false);
        }
        remove::contents(&work)?;
    }
    for entry in children(directory)? {
        match entry.file_name().and_then(|n| n.to_str()) {
            Some("head" | "work" | NOTHING | RECORD) => {}
            Some(FAREWELL) if fs::metadata(&entry).is_ok_and(|m| m.len() == 0) => {}
            _ => remove_entry(&entry)?,
        }
    }
    Ok(true)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_left_half_made_goes_and_what_is_being_made_stays() {
        let spares = std::env::temp_dir().join(format!("whatif-spares-{}", std::process::id()));
        let (left, fresh, ready) = (spares.join("new-left"), spares.join("new-fresh"), spares.join("0123456789ab"));
        for directory in [left.join("head"), left.join("work"), fresh.join("head"), ready.join("head")] {
            fs::create_dir_all(directory).expect("a scratch directory");
        }
        let long_ago = std::time::SystemTime::now() - 2 * LONG_MADE;
        for old in [&left, &ready] {
            fs::File::open(old).and_then(|held| held.set_modified(long_ago)).expect("it is ours");
        }
        let swept = (sweep(&spares), sweep(&spares));
        let remain = [&left, &fresh, &ready].map(|path| fs::metadata(path).is_ok());
        fs::remove_dir_all(&spares).expect("it is ours");
        assert_eq!((swept, remain), ((true, false), [false, true, true]));
    }
}
