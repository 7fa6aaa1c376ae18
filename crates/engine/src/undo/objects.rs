//! What an apply brought into git's store of objects, and whether an undo may take it away again.

use std::collections::{HashMap, HashSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use whatif_apply::Identity;

/// An object of a repository, or a directory of them: it is called by what is in it, and never becomes another.
#[must_use]
pub fn is_git_object(path: &Path) -> bool {
    repository_of(path).is_some()
}

fn repository_of(object: &Path) -> Option<&Path> {
    object.ancestors().find(|a| a.ends_with(".git/objects")).and_then(Path::parent)
}

/// Objects that an apply added to repositories of reality. Where git has written anything since, commits and branches may stand on
/// them: they stay, for objects that nothing needs do no harm.
pub(super) struct AddedObjects<'a> {
    found: &'a HashMap<PathBuf, Option<&'a Identity>>,
    in_use: HashSet<&'a Path>,
}

impl<'a> AddedObjects<'a> {
    pub(super) fn of(found: &'a HashMap<PathBuf, Option<&'a Identity>>, at: u64, is_partial: bool) -> Self {
        let added = |path: &Path| matches!(found.get(path), Some(None));
        let repositories: HashSet<&Path> = found.keys().filter(|path| added(path)).filter_map(|path| repository_of(path)).collect();
        // One that came with the apply goes with it.
        let theirs = repositories.into_iter().filter(|repository| !added(repository));
        let is_own = |path: &Path| found.contains_key(path);
        let in_use = theirs.filter(|repository| is_partial || has_been_written(repository, at, &is_own)).collect();
        Self { found, in_use }
    }

    pub(super) fn stay(&self, path: &Path) -> bool {
        matches!(self.found.get(path), Some(None)) && repository_of(path).is_some_and(|repository| self.in_use.contains(repository))
    }
}

/// Whether a repository has a file, but for its objects, that is younger than an apply and not of it. What cannot be looked at may be one.
fn has_been_written(directory: &Path, at: u64, is_own: &dyn Fn(&Path) -> bool) -> bool {
    let Ok(entries) = std::fs::read_dir(directory) else { return true };
    entries.into_iter().any(|entry| {
        let Ok((path, metadata)) = entry.and_then(|entry| Ok((entry.path(), entry.metadata()?))) else { return true };
        if metadata.is_dir() {
            return !path.ends_with(".git/objects") && has_been_written(&path, at, is_own);
        }
        let changed_ms = metadata.ctime().saturating_mul(1000).saturating_add(metadata.ctime_nsec() / 1_000_000);
        u64::try_from(changed_ms).is_ok_and(|changed_ms| changed_ms >= at) && !is_own(&path)
    })
}
