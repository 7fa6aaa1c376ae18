//! Bare repositories: a directory with `HEAD`, `objects` and `refs` is one to git, whatever it is called, and git obeys the
//! configuration and runs the hooks in it as soon as it is called there.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use whatif_sys::direct;

use super::folded;
use crate::change::Change;
use crate::unreadable::Unreadable;

/// What makes a directory one. With `commondir` the other two are elsewhere.
const PARTS: [&str; 4] = ["HEAD", "objects", "refs", "commondir"];

/// Finds the repository that a path is in. `.git` is told by its name and has no place here.
#[derive(Debug)]
pub(super) struct Repositories<'a> {
    project: &'a Path,
    /// Which of the parts a directory has or has not any more, by the sandbox.
    changed: HashMap<PathBuf, [Option<bool>; PARTS.len()]>,
    known: HashMap<PathBuf, Option<Rc<Path>>>,
    /// What could not be looked at.
    pub unreadable: Vec<Unreadable>,
}

impl<'a> Repositories<'a> {
    pub(super) fn new(project: &'a Path, changes: &[Change]) -> Self {
        let mut changed: HashMap<PathBuf, [Option<bool>; PARTS.len()]> = HashMap::new();
        for change in changes {
            for path in [Some(change.path.as_path()), change.old_path()].into_iter().flatten() {
                let Some((parent, name)) = path.parent().zip(path.file_name()) else { continue };
                let Some(part) = PARTS.iter().position(|part| folded::is(name, &part.to_lowercase())) else { continue };
                let is_there = change.after.is_some() && path == change.path;
                let known = &mut changed.entry(parent.to_owned()).or_default()[part];
                *known = Some(is_there || *known == Some(true));
            }
        }
        Self { project, changed, known: HashMap::new(), unreadable: Vec::new() }
    }

    /// The directory of the innermost repository around a path.
    pub(super) fn around(&mut self, path: &Path) -> Option<Rc<Path>> {
        let parent = path.parent()?;
        // Beyond the project nothing that is in it makes a difference.
        if path.starts_with(self.project) && !parent.starts_with(self.project) {
            return None;
        }
        if let Some(known) = self.known.get(parent) {
            return known.clone();
        }
        let found = if self.is_repository(parent) { Some(Rc::from(parent)) } else { self.around(parent) };
        self.known.insert(parent.to_owned(), found.clone());
        found
    }

    fn is_repository(&mut self, directory: &Path) -> bool {
        self.has(directory, 0) && (self.has(directory, 3) || self.has(directory, 1) && self.has(directory, 2))
    }

    fn has(&mut self, directory: &Path, part: usize) -> bool {
        if let Some(known) = self.changed.get(directory).and_then(|parts| parts[part]) {
            return known;
        }
        let path = directory.join(PARTS[part]);
        direct::find(&path).map(|found| found.is_some()).unwrap_or_else(|errno| {
            self.unreadable.push(Unreadable::new(&path, errno));
            true
        })
    }
}
