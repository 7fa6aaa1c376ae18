//! Groups of ours wherever they are. They are made below the group that the maker is in, and that is not always the same one.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::{Found, name};

/// The names of this user's groups that begin with `prefix`, in any hierarchy. The prefix should tell the state directory, too:
/// somebody else's groups are not to be taken for remains.
#[must_use]
pub fn list(found: &Found, prefix: &str) -> Vec<String> {
    let mut names: Vec<String> = search(found, &|name| name.starts_with(prefix)).into_iter().map(|(name, _)| name).collect();
    names.sort();
    names.dedup();
    names
}

pub(crate) fn named(found: &Found, name: &str) -> Vec<PathBuf> {
    search(found, &|candidate| candidate == name).into_iter().map(|(_, path)| path).collect()
}

/// Names and directories.
fn search(found: &Found, is_wanted: &dyn Fn(&str) -> bool) -> Vec<(String, PathBuf)> {
    let me = rustix::process::geteuid().as_raw();
    let mut groups = Vec::new();
    let mut directories = found.searched.clone();
    while let Some(directory) = directories.pop() {
        for (path, name, owner) in below(&directory) {
            if owner == me && is_wanted(&name) && name::check(&name).is_ok() {
                groups.push((name, path));
            } else {
                directories.push(path);
            }
        }
    }
    groups
}

/// The groups in a group, with their names and owners. Those that go meanwhile are none any more.
fn below(directory: &Path) -> Vec<(PathBuf, String, u32)> {
    // A directory has a link for each one in it; most groups have none, and looking through all their files would take long.
    if fs::symlink_metadata(directory).is_ok_and(|d| d.nlink() == 2) {
        return Vec::new();
    }
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let directories = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    directories
        .filter_map(|entry| Some((entry.path(), entry.file_name().to_str()?.to_owned(), entry.metadata().ok()?.uid())))
        .collect()
}
