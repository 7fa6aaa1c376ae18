//! Groups of ours wherever they are. They are made below the group that the maker is in, and that is not always the same one.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

use crate::error::on;
use crate::{CgroupError, Found, name};

/// The names of this user's groups that begin with `prefix`, in any hierarchy. The prefix should tell the state directory, too:
/// somebody else's groups are not to be taken for remains.
pub fn list(found: &Found, prefix: &str) -> Result<Vec<String>, CgroupError> {
    let mut names: Vec<String> = search(found, &|name| name.starts_with(prefix))?.into_iter().map(|(name, _)| name).collect();
    names.sort();
    names.dedup();
    Ok(names)
}

pub(crate) fn named(found: &Found, name: &str) -> Result<Vec<PathBuf>, CgroupError> {
    Ok(search(found, &|candidate| candidate == name)?.into_iter().map(|(_, path)| path).collect())
}

/// Names and directories.
fn search(found: &Found, is_wanted: &dyn Fn(&str) -> bool) -> Result<Vec<(String, PathBuf)>, CgroupError> {
    let me = rustix::process::geteuid().as_raw();
    let mut groups = Vec::new();
    let mut directories = found.searched.clone();
    while let Some(directory) = directories.pop() {
        for (path, name, owner) in below(&directory)? {
            if owner == me && is_wanted(&name) && name::check(&name).is_ok() {
                groups.push((name, path));
            } else {
                directories.push(path);
            }
        }
    }
    Ok(groups)
}

/// The groups in a group, with their names and owners. Those that go meanwhile are none any more, and those that are closed to us
/// hold none of ours.
fn below(directory: &Path) -> Result<Vec<(PathBuf, String, u32)>, CgroupError> {
    let failed = |error| on("look through", directory)(error);
    // A directory has a link for each one in it; most groups have none, and looking through all their files would take long.
    if unless_gone(fs::symlink_metadata(directory)).map_err(failed)?.is_none_or(|d| d.nlink() == 2) {
        return Ok(Vec::new());
    }
    let Some(entries) = unless_gone(fs::read_dir(directory)).map_err(failed)? else { return Ok(Vec::new()) };
    let mut groups = Vec::new();
    for entry in entries {
        let Some(entry) = unless_gone(entry).map_err(failed)? else { break };
        if !entry.file_type().map_err(failed)?.is_dir() {
            continue;
        }
        let Some(metadata) = unless_gone(entry.metadata()).map_err(failed)? else { continue };
        if let Some(name) = entry.file_name().to_str() {
            groups.push((entry.path(), name.to_owned(), metadata.uid()));
        }
    }
    Ok(groups)
}

fn unless_gone<T>(looked: io::Result<T>) -> io::Result<Option<T>> {
    match looked {
        Ok(seen) => Ok(Some(seen)),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(None),
        // What files of a removed group answer.
        Err(error) if Errno::from_io_error(&error) == Some(Errno::NODEV) => Ok(None),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        Err(error) => Err(error),
    }
}
