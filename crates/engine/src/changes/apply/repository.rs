//! What an apply does to git's own directories, beyond what it does to files. Afterwards every branch stands on objects that are there:
//! none is taken away that reality may need, and those that the sandbox still has and reality pruned come along.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use whatif_apply::Change as Act;
use whatif_diff::pattern::Patterns;
use whatif_diff::{Change, ChangeKind, ChangeSet, Kind, Node, State};
use whatif_types::Sandbox;

use super::plan::Planned;
use super::select::Chosen;
use crate::changes::Changes;
use crate::git_directory::{Fault, GitDirectories, Repository, Store};
use crate::merge::{Conflict, Side};
use crate::{EngineError, git_directory};

/// The locks among what was chosen. What holds one runs, or ran, in the sandbox.
pub(super) fn locks(chosen: &[Chosen<'_>], directories: &mut GitDirectories) -> Result<HashSet<PathBuf>, EngineError> {
    let mut locks = HashSet::new();
    for path in chosen.iter().filter(|c| c.change.after.is_some() && !c.change.is_directory()).map(|c| &c.change.path) {
        if let Some(directory) = directories.around(path)?
            && path.strip_prefix(&directory).is_ok_and(git_directory::is_lock)
        {
            locks.insert(path.clone());
        }
    }
    Ok(locks)
}

/// Objects that a plan would take from repositories that stay. A branch that reality made since may stand on them, and what nothing
/// stands on does no harm: git itself removes it in time.
pub(super) fn objects_to_keep(planned: &Planned, directories: &mut GitDirectories) -> Result<Vec<PathBuf>, EngineError> {
    let gone = git_directory::gone(&planned.plan);
    let removed = planned.paths.iter().zip(&planned.plan.operations).filter(|(_, o)| matches!(o.change, Act::Remove));
    let mut kept = Vec::new();
    for path in removed.map(|(path, _)| path) {
        if let Some(directory) = directories.of_object(path)?
            && !gone.contains(&*directory)
        {
            kept.push(path.clone());
        }
    }
    Ok(kept)
}

impl Changes {
    /// Objects that reality pruned while the sandbox has them as they were, and the directories they were in: git inside did not write
    /// them again, for they were there.
    pub(super) fn pruned_objects(
        &self,
        planned: &Planned,
        behind: &[Change],
        stays_out: &Patterns,
        sandbox: &Sandbox,
    ) -> Result<Vec<Change>, EngineError> {
        let is_file = |c: &Change| c.after.as_ref().is_some_and(|after| after.node.kind == Kind::File);
        let pruned: Vec<&Change> =
            behind.iter().filter(|c| c.reality.is_none() && is_file(c) && !stays_out.matches(&c.path)).collect();
        if pruned.is_empty() {
            return Ok(Vec::new());
        }
        let mut found = Vec::new();
        for repository in Repository::written_by(&planned.plan)? {
            let objects = repository.directory.join("objects");
            let here: Vec<&Change> = pruned.iter().copied().filter(|c| c.path.starts_with(&objects)).collect();
            if here.is_empty() {
                continue;
            }
            let Some(store) = Store::of(&repository, &self.ground.caller.home, &sandbox.project)? else {
                found.extend(here);
                continue;
            };
            let (loose, packs): (Vec<_>, Vec<_>) =
                here.into_iter().map(|c| (c, loose_id(&objects, &c.path))).partition(|(_, id)| id.is_some());
            // Reality may have them in a pack by now.
            let missing = store.missing(loose.iter().filter_map(|(_, id)| id.as_ref()))?;
            found.extend(loose.iter().filter(|(_, id)| id.as_ref().is_some_and(|id| missing.contains(id))).map(|(c, _)| *c));
            if !packs.is_empty() && !store.faults(&repository)?.is_empty() {
                found.extend(packs.into_iter().map(|(c, _)| c).filter(|c| c.path.starts_with(objects.join("pack"))));
            }
        }
        with_directories(found)
    }

    /// What git could not make sense of if a plan were carried out.
    pub(super) fn git_conflicts(
        &self,
        planned: &Planned,
        set: &ChangeSet,
        sandbox: &Sandbox,
    ) -> Result<Vec<Conflict>, EngineError> {
        let repositories = Repository::written_by(&planned.plan)?;
        Repository::require_rest(&repositories)?;
        let mut faults = Vec::new();
        // What is in conflict is not in the plan, so more would seem to be missing than is.
        let is_in_conflict = |r: &&Repository<'_>| planned.conflicts.iter().any(|c| c.path.starts_with(&r.directory));
        for repository in repositories.iter().filter(|r| !is_in_conflict(r)) {
            faults.extend(self.git_faults(repository, sandbox.created_at, &sandbox.project)?);
            let packed = set.find(&repository.directory.join("packed-refs")).and_then(|c| c.after.as_ref());
            if let Some(packed) = packed {
                let bytes = packed.bytes().map_err(|e| EngineError::io("read", &packed.at, e))?;
                faults.extend(repository.not_packed(&bytes)?);
            }
        }
        let side =
            |path: &Path| set.find(path).map_or(Side::Changed, |c| if c.after.is_some() { Side::Changed } else { Side::Deleted });
        let conflict = |Fault { path, why }| Conflict {
            reality: Side::Changed,
            sandbox: side(&path),
            why,
            path,
            regions: Vec::new(),
            renamed: None,
        };
        Ok(faults.into_iter().map(conflict).collect())
    }

    /// `since`: when reality was looked at last, in milliseconds since 1970.
    pub(crate) fn git_faults(&self, repository: &Repository<'_>, since: u64, project: &Path) -> Result<Vec<Fault>, EngineError> {
        let mut faults = repository.checked_out(since)?;
        faults.extend(match Store::of(repository, &self.ground.caller.home, project)? {
            Some(store) => store.faults(repository)?,
            None => repository.unchecked()?,
        });
        Ok(faults)
    }
}

/// Git removes the directory of an object with the last object in it.
fn with_directories(objects: Vec<&Change>) -> Result<Vec<Change>, EngineError> {
    let mut directories: BTreeMap<&Path, Change> = BTreeMap::new();
    for (object, after) in objects.iter().filter_map(|object| Some((object, object.after.as_ref()?))) {
        let (Some(path), Some(at)) = (object.path.parent(), after.at.parent()) else { continue };
        if directories.contains_key(path) || whatif_diff::scan::reality(path)?.is_some() {
            continue;
        }
        let Some(node) = Node::of(at)? else { continue };
        let directory = State::new(node, at.to_owned(), after.marks());
        directories.insert(path, Change::new(path.to_owned(), ChangeKind::Add, None, Some(directory)));
    }
    Ok(directories.into_values().chain(objects.into_iter().cloned()).collect())
}

/// The id of an object that has a file of its own.
fn loose_id(objects: &Path, path: &Path) -> Option<String> {
    let parts: Vec<&OsStr> = path.strip_prefix(objects).ok()?.iter().collect();
    let [start, rest] = parts[..] else { return None };
    let id = format!("{}{}", start.to_str()?, rest.to_str()?);
    (start.len() == 2 && matches!(id.len(), 40 | 64) && id.bytes().all(|b| b.is_ascii_hexdigit())).then_some(id)
}
