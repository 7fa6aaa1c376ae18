//! Locks of references that a git of ours left when it was killed. Git holds them for a moment only.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use whatif_sys::absence;

use super::note::Note;
use crate::EngineError;
use crate::git::Git;

/// How long a lock must stay the same to belong to nobody.
const PATIENCE: Duration = Duration::from_millis(500);
const INTERVAL: Duration = Duration::from_millis(10);

/// Removes those that are ours: the next commit would fail because of them. The caller knows that no command of the apply is alive.
pub(super) fn remove(git: &Git, note: &Note) -> Result<(), EngineError> {
    let Some(commit) = &note.commit else { return Ok(()) };
    for locked in [note.directory.join("HEAD"), note.branch.clone(), note.directory.join("reftable/tables.list")] {
        let lock = with_suffix(&locked);
        if is_left(git, note, commit, &lock)? {
            git.script("rm -f -- \"$1\"", &[&lock])?;
        }
    }
    Ok(())
}

fn with_suffix(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".lock");
    PathBuf::from(name)
}

fn is_left(git: &Git, note: &Note, commit: &str, lock: &Path) -> Result<bool, EngineError> {
    let look = || absence::look(lock).map_err(|e| EngineError::io("examine", lock, e));
    let Some(first) = look()?.filter(|m| m.is_file()) else { return Ok(false) };
    let is_older = i128::from(first.mtime()) * 1000 + i128::from(first.mtime_nsec() / 1_000_000) < i128::from(note.at);
    if is_older {
        return Ok(false);
    }
    if git.test("[ \"$(cat -- \"$1\")\" = \"$2\" ]", &[lock, Path::new(commit)])? {
        return Ok(true);
    }
    // An empty one says nothing about who made it. One of a git that is alive goes soon, or its process is to be seen.
    let deadline = Instant::now() + PATIENCE;
    while Instant::now() < deadline {
        let is_same =
            look()?.is_some_and(|m| (m.ino(), m.ctime(), m.ctime_nsec()) == (first.ino(), first.ctime(), first.ctime_nsec()));
        if !is_same {
            return Ok(false);
        }
        std::thread::sleep(INTERVAL);
    }
    Ok(!has_live_git(&git.root, first.uid()))
}

/// Whether a git of this user may be at work in a repository; a file belongs to whoever made it. One that cannot be looked at may.
fn has_live_git(root: &Path, uid: u32) -> bool {
    let Ok(processes) = std::fs::read_dir("/proc") else { return true };
    processes.flatten().any(|process| {
        let path = process.path();
        let is_git = std::fs::read(path.join("comm")).is_ok_and(|name| name.starts_with(b"git"));
        is_git
            && process.metadata().is_ok_and(|m| m.uid() == uid)
            && match std::fs::read_link(path.join("cwd")) {
                Ok(cwd) => cwd.starts_with(root),
                Err(error) => error.kind() == std::io::ErrorKind::PermissionDenied,
            }
    })
}
