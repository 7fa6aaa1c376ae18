//! Processes that hold on to a tree: they would go on in it when another one takes its place.
//!
//! Looked for in the sandbox's own `/proc`, by the number of the mount, so no name that a process gave to something matters.
//! What is not seen here (a descriptor in flight between two processes) finds the tree read-only.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, statx};

/// A process and what it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    pub pid: i32,
    pub command: String,
    /// What it holds, as its own links in `/proc` name it.
    pub holds: PathBuf,
}

/// The processes that stand in one of these mounts or have a directory of it, or a file for writing, open.
#[must_use]
pub fn find(trees: &[(PathBuf, OwnedFd)]) -> Vec<Holder> {
    let mounts: Vec<u64> = trees.iter().filter_map(|(_, tree)| mount_of(tree, "")).collect();
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|e| e.ok()?.file_name().to_str()?.parse::<i32>().ok()).filter(|pid| *pid != 1);
    let root = statx(CWD, "/", AtFlags::empty(), StatxFlags::INO | StatxFlags::MNT_ID).ok();
    pids.filter_map(|pid| {
        let process = PathBuf::from(format!("/proc/{pid}"));
        let cwd = process.join("cwd");
        // The working directory of who stands at the root changes along with the root.
        let is_root = |at: &Path| {
            let there = statx(CWD, at, AtFlags::empty(), StatxFlags::INO | StatxFlags::MNT_ID).ok();
            there.zip(root).is_some_and(|(a, b)| (a.stx_mnt_id, a.stx_ino) == (b.stx_mnt_id, b.stx_ino))
        };
        let stands_in = mount_of(CWD, &cwd).is_some_and(|m| mounts.contains(&m)) && !is_root(&cwd);
        let held = if stands_in { Some(cwd) } else { held_descriptor(&process, &mounts) };
        held.map(|held| Holder { pid, command: command(&process), holds: fs::read_link(&held).unwrap_or(held) })
    })
    .collect()
}

fn held_descriptor(process: &Path, mounts: &[u64]) -> Option<PathBuf> {
    let descriptors = fs::read_dir(process.join("fd")).ok()?;
    descriptors.filter_map(Result::ok).map(|e| e.path()).find(|descriptor| {
        let Ok(found) = statx(CWD, descriptor, AtFlags::empty(), StatxFlags::TYPE | StatxFlags::MNT_ID) else { return false };
        let is_directory = FileType::from_raw_mode(found.stx_mode.into()).is_dir();
        mounts.contains(&found.stx_mnt_id) && (is_directory || can_write(process, descriptor))
    })
}

fn can_write(process: &Path, descriptor: &Path) -> bool {
    let Some(name) = descriptor.file_name() else { return false };
    let info = fs::read_to_string(process.join("fdinfo").join(name)).unwrap_or_default();
    let flags = info.lines().find_map(|line| u32::from_str_radix(line.strip_prefix("flags:")?.trim(), 8).ok());
    flags.is_some_and(|f| f & rustix::fs::OFlags::ACCMODE.bits() != 0)
}

fn mount_of(at: impl std::os::fd::AsFd, path: impl AsRef<Path>) -> Option<u64> {
    let flags = if path.as_ref().as_os_str().is_empty() { AtFlags::EMPTY_PATH } else { AtFlags::empty() };
    statx(at, path.as_ref(), flags, StatxFlags::MNT_ID).ok().map(|s| s.stx_mnt_id)
}

fn command(process: &Path) -> String {
    let bytes = fs::read(process.join("cmdline")).unwrap_or_default();
    let words: Vec<String> = bytes.split(|b| *b == 0).map(|w| String::from_utf8_lossy(w).into_owned()).collect();
    words.join(" ").trim().to_owned()
}
