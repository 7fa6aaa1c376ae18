//! Processes that hold on to a tree: they would go on in it when another one takes its place.
//!
//! Looked for in the sandbox's own `/proc`, by the number of the mount, so no name that a process gave to something matters.
//! What is not seen here (a descriptor in flight between two processes) finds the tree read-only.

use std::collections::HashSet;
use std::fs;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

/// A process and what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    pub pid: i32,
    pub command: String,
    /// What it holds, as its own links in `/proc` name it.
    pub holds: PathBuf,
}

/// The processes that stand in one of these mounts or have anything of it open: even who only reads may hold a lock, wait for
/// news of a file, or be known to others by a socket. Programs and libraries that are merely running are no matter.
#[must_use]
pub fn find(trees: &[(PathBuf, OwnedFd)]) -> Vec<Holder> {
    let look = Look {
        mounts: trees.iter().filter_map(|(_, tree)| mount_of(tree, Path::new(""))).collect(),
        root: place_of(Path::new("/")),
    };
    numbers_in(Path::new("/proc")).filter(|pid| *pid != 1).filter_map(|pid| look.at_process(pid)).collect()
}

struct Look {
    mounts: Vec<u64>,
    /// Mount and inode of the root directory.
    root: Option<(u64, u64)>,
}

impl Look {
    fn at_process(&self, pid: i32) -> Option<Holder> {
        let process = PathBuf::from(format!("/proc/{pid}"));
        // Threads can have a working directory and descriptors of their own.
        let threads = numbers_in(&process.join("task")).map(|thread| process.join("task").join(thread.to_string()));
        let held = threads.filter_map(|thread| self.held_by(&thread)).next()?;
        Some(Holder { pid, command: command(&process), holds: fs::read_link(&held).unwrap_or(held) })
    }

    fn held_by(&self, thread: &Path) -> Option<PathBuf> {
        // Both change along with the root for who stands at it.
        let places = ["cwd", "root"].map(|link| thread.join(link));
        if let Some(place) = places.into_iter().find(|p| self.is_in_trees(p) && place_of(p) != self.root) {
            return Some(place);
        }
        let mut sockets = None;
        let descriptors = fs::read_dir(thread.join("fd")).ok()?;
        descriptors.filter_map(Result::ok).map(|e| e.path()).find(|descriptor| {
            let name = fs::read_link(descriptor).unwrap_or_default();
            let name = name.to_string_lossy();
            if let Some(inode) = name.strip_prefix("socket:[").and_then(|n| n.strip_suffix(']')) {
                return sockets.get_or_insert_with(|| named_sockets(thread)).contains(inode);
            }
            name == "anon_inode:inotify" || name.starts_with("anon_inode:[fanotify") || self.is_in_trees(descriptor)
        })
    }

    fn is_in_trees(&self, path: &Path) -> bool {
        mount_of(CWD, path).is_some_and(|mount| self.mounts.contains(&mount))
    }
}

/// The inodes of unix sockets that have a path.
fn named_sockets(thread: &Path) -> HashSet<String> {
    let list = fs::read_to_string(thread.join("net/unix")).unwrap_or_default();
    let named = list.lines().filter_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        fields.get(7).filter(|path| path.starts_with('/')).and(fields.get(6)).map(|inode| (*inode).to_owned())
    });
    named.collect()
}

fn numbers_in(directory: &Path) -> impl Iterator<Item = i32> + use<> {
    fs::read_dir(directory).into_iter().flatten().filter_map(|e| e.ok()?.file_name().to_str()?.parse().ok())
}

fn mount_of(at: impl AsFd, path: &Path) -> Option<u64> {
    let flags = if path.as_os_str().is_empty() { AtFlags::EMPTY_PATH } else { AtFlags::empty() };
    statx(at, path, flags, StatxFlags::MNT_ID).ok().map(|s| s.stx_mnt_id)
}

fn place_of(path: &Path) -> Option<(u64, u64)> {
    let found = statx(CWD, path, AtFlags::empty(), StatxFlags::INO | StatxFlags::MNT_ID).ok()?;
    Some((found.stx_mnt_id, found.stx_ino))
}

fn command(process: &Path) -> String {
    let bytes = fs::read(process.join("cmdline")).unwrap_or_default();
    let words: Vec<String> = bytes.split(|b| *b == 0).map(|w| String::from_utf8_lossy(w).into_owned()).collect();
    words.join(" ").trim().to_owned()
}
