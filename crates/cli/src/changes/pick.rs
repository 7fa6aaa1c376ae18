//! Which of the changes a command line asks for.

use std::path::{Component, Path, PathBuf};

use whatif_engine::Change;

/// Paths given by a person, relative to where they stand.
#[derive(Clone, Debug, Default)]
pub struct Picked {
    paths: Vec<PathBuf>,
}

impl Picked {
    #[must_use]
    pub fn new(paths: &[PathBuf], cwd: &Path) -> Self {
        Self { paths: paths.iter().map(|p| plain(&cwd.join(p))).collect() }
    }

    #[must_use]
    pub fn is_everything(&self) -> bool {
        self.paths.is_empty()
    }

    /// The paths at and below which nothing changed.
    pub fn without_change<'a>(&'a self, changes: &'a [Change]) -> impl Iterator<Item = &'a Path> {
        let paths = |c: &'a Change| std::iter::once(c.path.as_path()).chain(c.old_path());
        let is_changed = move |path: &PathBuf| changes.iter().flat_map(paths).any(|changed| changed.starts_with(path));
        self.paths.iter().filter(move |path| !is_changed(path)).map(PathBuf::as_path)
    }

    /// Without paths, everything.
    #[must_use]
    pub fn takes(&self, change: &Change) -> bool {
        let within = |path: &Path| self.paths.iter().any(|p| path.starts_with(p));
        self.paths.is_empty() || within(&change.path) || change.old_path().is_some_and(within)
    }
}

/// Without `.` and `..`; nothing is looked up, because what is meant may exist only inside.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            other => plain.push(other),
        }
    }
    plain
}
