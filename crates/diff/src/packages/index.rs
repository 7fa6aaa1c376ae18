//! Which of many packages a change belongs to, found without asking each of them.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::Path;

use super::{Claim, Manager, node};
use crate::change::Change;

pub(super) struct Index<'a> {
    project: &'a Path,
    claims: &'a [Claim],
    listed: HashMap<&'a Path, usize>,
    owned: HashMap<&'a Path, usize>,
    trees: HashMap<&'a Path, usize>,
    whole: HashMap<&'a Path, usize>,
}

impl<'a> Index<'a> {
    pub(super) fn of(claims: &'a [Claim], project: &'a Path) -> Self {
        let mut index =
            Self { project, claims, listed: HashMap::new(), owned: HashMap::new(), trees: HashMap::new(), whole: HashMap::new() };
        for (number, claim) in claims.iter().enumerate() {
            let members = &claim.members;
            members.paths.iter().for_each(|path| _ = index.listed.entry(path).or_insert(number));
            members.owned.iter().for_each(|path| _ = index.owned.entry(path).or_insert(number));
            members.trees.iter().for_each(|path| _ = index.trees.entry(path).or_insert(number));
            members.whole.iter().for_each(|path| _ = index.whole.entry(path).or_insert(number));
        }
        index
    }

    pub(super) fn claim_of(&self, change: &Change) -> Option<usize> {
        let path = &change.path;
        // Whatever a list says, nobody installs packages into a repository.
        if path.components().any(|part| part.as_os_str() == ".git") {
            return None;
        }
        let is_new = change.before.is_none() || change.deletion.is_some();
        let claim = if is_new { self.of_new(path) } else { self.of_existing(change) }?;
        // Debian's packages know nothing of projects.
        let is_apt = self.claims.get(claim).is_some_and(|claim| claim.manager == Manager::Apt);
        if is_apt && path.starts_with(self.project) {
            return None;
        }
        // Of a rename both ends, or else it would hide that the old one went.
        match &change.deletion {
            Some(deletion) => self.claim_of(deletion).filter(|from| *from == claim),
            None => Some(claim),
        }
    }

    fn of_new(&self, path: &Path) -> Option<usize> {
        let listed = |path: &Path| self.owned.get(path).or_else(|| self.listed.get(path)).copied();
        let beneath = || path.ancestors().find_map(|above| self.whole.get(above).or_else(|| self.trees.get(above))).copied();
        listed(path).or_else(beneath).or_else(|| compiled(path, listed))
    }

    fn of_existing(&self, change: &Change) -> Option<usize> {
        let path = &change.path;
        // What a person keeps in the project is theirs; and what became of a directory is not what became of files in it.
        let is_kept = path.starts_with(self.project) && !change.ignored;
        if is_kept || change.is_directory() && change.after.is_some() {
            return None;
        }
        if let Some(whole) = self.whole_around(path) {
            return Some(whole);
        }
        // Settings are the administrator's, who may have changed them.
        if path.starts_with("/etc") {
            return None;
        }
        let owned = |path: &Path| self.owned.get(path).copied();
        owned(path).or_else(|| compiled(path, owned))
    }

    fn whole_around(&self, path: &Path) -> Option<usize> {
        for above in path.ancestors() {
            if let Some(claim) = self.whole.get(above) {
                return Some(*claim);
            }
            // A package within a package is another one.
            if node::is_package(above) {
                return None;
            }
        }
        None
    }
}

/// Python compiles a package's modules when it is installed, without noting that everywhere.
fn compiled(path: &Path, listed: impl Fn(&Path) -> Option<usize>) -> Option<usize> {
    let cache = path.ancestors().take(2).find(|above| above.file_name() == Some(OsStr::new("__pycache__")))?;
    let around = cache.parent().unwrap_or(cache);
    if path == cache {
        return listed(&around.join("__init__.py"));
    }
    let (module, _) = path.file_name().and_then(OsStr::to_str).filter(|name| name.ends_with(".pyc"))?.split_once('.')?;
    listed(&around.join(format!("{module}.py")))
}
