//! Dependency trees: directories that a package manager fills. A part of one is of no use, and breaks what was there before.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::change::Change;

/// Told by the name of the directory.
const NAMES: [&str; 5] = ["node_modules", "bower_components", "__pypackages__", ".venv", "venv"];

/// Told by the name and that of the directory around it.
const NESTED: [(&str, &str); 3] = [("vendor", "bundle"), (".yarn", "cache"), (".yarn", "unplugged")];

/// Told by something in it that changes with it: the name of the directory, where only one will do, and what lies in it.
const MARKED: [(Option<&str>, &str); 5] = [
    (None, "pyvenv.cfg"),
    (None, "conda-meta/history"),
    (None, ".cargo-checksum.json"),
    (Some("vendor"), "modules.txt"),
    (Some("vendor"), "composer/installed.json"),
];

/// The dependency trees that a sandbox changed something in.
#[derive(Debug, Default)]
pub struct DependencyTrees {
    project: PathBuf,
    roots: HashSet<PathBuf>,
}

impl DependencyTrees {
    /// `changes` are in the order of their paths, byte by byte.
    pub(crate) fn among(changes: &[Change], project: &Path) -> Self {
        let mut trees = Self { project: project.to_owned(), roots: HashSet::new() };
        for path in changes.iter().flat_map(|change| [Some(change.path.as_path()), change.old_path()]).flatten() {
            for root in path.ancestors().filter(|a| is_tree_by_name(a)).chain(environment(path)) {
                trees.add(root);
            }
            for root in marked(path).filter(|root| is_tree_by_mark(changes, root, path)) {
                trees.add(root);
            }
        }
        trees
    }

    /// Names above the project say nothing about what is in it.
    fn add(&mut self, root: &Path) {
        if !self.project.starts_with(root) && !self.roots.contains(root) {
            self.roots.insert(root.to_owned());
        }
    }

    /// The outermost one that a path belongs to.
    #[must_use]
    pub fn around(&self, path: &Path) -> Option<&Path> {
        if self.roots.is_empty() {
            return None;
        }
        let within = path.ancestors().take_while(|a| *a != self.project);
        within.filter_map(|a| self.roots.get(a)).last().map(PathBuf::as_path)
    }
}

fn is_tree_by_name(path: &Path) -> bool {
    let Some(name) = path.file_name() else { return false };
    let around = path.parent().and_then(Path::file_name);
    NAMES.iter().any(|n| name == *n) || NESTED.iter().any(|(outer, inner)| name == *inner && around == Some(OsStr::new(outer)))
}

/// The virtual environment whose packages a path is among. The system has its packages in the same way, and is no tree.
fn environment(path: &Path) -> Option<&Path> {
    let packages = path.ancestors().find(|a| a.file_name() == Some(OsStr::new("site-packages")))?;
    let python = packages.parent().filter(|p| p.file_name().is_some_and(|n| n.as_encoded_bytes().starts_with(b"python")))?;
    let library = python.parent().filter(|l| l.ends_with("lib") || l.ends_with("lib64"))?;
    library.parent().filter(|root| !["/", "/usr", "/usr/local"].iter().any(|system| *root == Path::new(system)))
}

/// The directory that a path marks as a tree, or would if it may.
fn marked(path: &Path) -> impl Iterator<Item = &Path> {
    MARKED.iter().filter_map(move |(name, mark)| {
        let root = path.ends_with(mark).then(|| path.ancestors().nth(Path::new(mark).components().count())).flatten()?;
        name.is_none_or(|name| root.file_name() == Some(OsStr::new(name))).then_some(root)
    })
}

/// A mark counts in a directory that had it before, or that is new with it: otherwise a sandbox could make a tree of any directory
/// of the project by putting one there.
fn is_tree_by_mark(changes: &[Change], root: &Path, mark: &Path) -> bool {
    let find = |path: &Path| {
        let wanted = path.as_os_str().as_bytes();
        changes.binary_search_by(|c| c.path.as_os_str().as_bytes().cmp(wanted)).ok().and_then(|at| changes.get(at))
    };
    let had_it = find(mark).is_none_or(|change| change.before.is_some());
    had_it || find(root).is_some_and(|directory| directory.before.is_none())
}
