//! Git's locks: a file `X.lock` is there for as long as a git command writes `X`, and `gc.pid` while objects are collected.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::{fs, io};

use whatif_sys::absence::{self, OrAbsent};

/// Those that count wherever one works in the repository.
const OF_REPOSITORY: [&str; 5] = ["HEAD.lock", "index.lock", "packed-refs.lock", "config.lock", "shallow.lock"];
const COLLECTING: &str = "gc.pid";
/// Not git's own, so what is called like a lock there need not be one.
const OF_OTHERS: [&str; 3] = ["hooks", "lfs", "annex"];

/// Whether a path within git's directory is that of a lock.
pub(crate) fn is_lock(within: &Path) -> bool {
    let is_gits = within.iter().next().is_some_and(|first| OF_OTHERS.iter().all(|other| first != *other));
    is_gits && (within.extension() == Some(OsStr::new("lock")) || within == Path::new(COLLECTING))
}

/// The locks that git commands hold, or left when they were killed.
pub(super) fn held_in(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut held = Vec::new();
    // Linked work trees have a HEAD and an index of their own.
    for place in [directory.to_owned()].into_iter().chain(entries(&directory.join("worktrees"))?) {
        for lock in OF_REPOSITORY.map(|name| place.join(name)) {
            if absence::exists(&lock)? {
                held.push(lock);
            }
        }
    }
    let collecting = directory.join(COLLECTING);
    if fs::read(&collecting).or_absent()?.is_some_and(|by| may_run(&by)) {
        held.push(collecting);
    }
    let mut waiting = vec![directory.join("refs")];
    while let Some(place) = waiting.pop() {
        for path in entries(&place)? {
            match absence::look(&path)? {
                Some(meta) if meta.is_dir() => waiting.push(path),
                Some(_) if path.extension() == Some(OsStr::new("lock")) => held.push(path),
                _ => {}
            }
        }
    }
    Ok(held)
}

pub(super) fn entries(directory: &Path) -> io::Result<Vec<PathBuf>> {
    match fs::read_dir(directory).or_absent()? {
        Some(entries) => entries.map(|entry| entry.map(|e| e.path())).collect(),
        None => Ok(Vec::new()),
    }
}

/// `PID HOST`. Git goes on in spite of one that a killed process of this machine left, and so do we.
fn may_run(by: &[u8]) -> bool {
    let text = String::from_utf8_lossy(by);
    let Some((pid, host)) = text.trim().split_once(' ') else { return true };
    let is_here = rustix::system::uname().nodename().to_string_lossy() == host;
    match pid.parse().ok().and_then(rustix::process::Pid::from_raw) {
        Some(pid) if is_here => rustix::process::test_kill_process(pid) != Err(rustix::io::Errno::SRCH),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_are_told_from_what_is_called_like_one() {
        for lock in [
            "index.lock",
            "HEAD.lock",
            "refs/heads/main.lock",
            "objects/info/commit-graph.lock",
            "worktrees/w/index.lock",
            "gc.pid",
        ] {
            assert!(is_lock(Path::new(lock)), "{lock}");
        }
        for other in ["index", "hooks/update.lock", "lfs/objects/a.lock", "refs/heads/lock", "logs/gc.pid"] {
            assert!(!is_lock(Path::new(other)), "{other}");
        }
    }

    #[test]
    fn a_collection_that_was_killed_locks_nothing() {
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        assert!(may_run(format!("{} {host}", std::process::id()).as_bytes()));
        assert!(!may_run(format!("{} {host}", i32::MAX).as_bytes()));
        assert!(may_run(b"1 elsewhere.example"));
        assert!(may_run(b"something else"));
    }
}
