//! What an apply brought into git's store of objects, and whether an undo may take it away again.

use std::collections::{HashMap, HashSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use whatif_apply::Identity;

use crate::EngineError;
use crate::git_directory::GitDirectories;

/// An object of a repository of reality, or a directory of them: it is called by what is in it, and never becomes another.
#[must_use]
pub fn is_git_object(path: &Path) -> bool {
    matches!(GitDirectories::default().of_object(path), Ok(Some(_)))
}

/// Objects that an apply added to repositories of reality. Where git has written anything since, commits and branches may stand on
/// them: they stay, for objects that nothing needs do no harm.
pub(super) struct AddedObjects<'a> {
    staying: HashSet<&'a Path>,
}

impl<'a> AddedObjects<'a> {
    pub(super) fn of(found: &'a HashMap<PathBuf, Option<&'a Identity>>, at: u64, is_partial: bool) -> Result<Self, EngineError> {
        let added = |path: &Path| matches!(found.get(path), Some(None));
        let mut directories = GitDirectories::default();
        let mut objects: HashMap<Rc<Path>, Vec<&Path>> = HashMap::new();
        for path in found.keys().map(PathBuf::as_path).filter(|path| added(path)) {
            if let Some(repository) = directories.of_object(path)? {
                objects.entry(repository).or_default().push(path);
            }
        }
        let is_own = |path: &Path| found.contains_key(path);
        // One that came with the apply goes with it.
        let is_in_use =
            |repository: &Path| !added(repository) && (is_partial || has_been_written(repository, repository, at, &is_own));
        let staying = objects.into_iter().filter(|(repository, _)| is_in_use(repository)).flat_map(|(_, objects)| objects);
        Ok(Self { staying: staying.collect() })
    }

    pub(super) fn stay(&self, path: &Path) -> bool {
        self.staying.contains(path)
    }
}

/// Whether a repository has a file, but for its objects, that is younger than an apply and not of it. What cannot be looked at may be one.
fn has_been_written(repository: &Path, directory: &Path, at: u64, is_own: &dyn Fn(&Path) -> bool) -> bool {
    let Ok(entries) = std::fs::read_dir(directory) else { return true };
    entries.into_iter().any(|entry| {
        let Ok((path, metadata)) = entry.and_then(|entry| Ok((entry.path(), entry.metadata()?))) else { return true };
        if metadata.is_dir() {
            return path != repository.join("objects") && has_been_written(repository, &path, at, is_own);
        }
        let changed_ms = metadata.ctime().saturating_mul(1000).saturating_add(metadata.ctime_nsec() / 1_000_000);
        u64::try_from(changed_ms).is_ok_and(|changed_ms| changed_ms >= at) && !is_own(&path)
    })
}
