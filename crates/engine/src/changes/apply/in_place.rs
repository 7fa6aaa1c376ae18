//! Which directories are real as a whole once an apply is done.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use whatif_diff::ChangeSet;

use super::What;
use super::plan::Planned;

/// Directories in which something is not made real.
pub(super) struct Whole(HashSet<PathBuf>);

impl Whole {
    pub(super) fn of(set: &ChangeSet, planned: &Planned) -> Self {
        let parts = planned.steps.iter().filter(|s| s.what == What::Part).map(|s| &s.path).collect::<HashSet<&PathBuf>>();
        let done: HashSet<&PathBuf> = planned.paths.iter().chain(&planned.unchanged).filter(|p| !parts.contains(p)).collect();
        let all = set.changes.iter().flat_map(|c| [Some(c), c.deletion.as_deref()]).flatten().map(|c| &c.path);
        // What nobody could look at is not known to be real.
        let all = all.chain(set.unreadable.iter().map(|u| &u.path));
        let mut open = HashSet::new();
        for path in all.filter(|p| !done.contains(p)) {
            for directory in path.ancestors() {
                // Those above it are known, too.
                if !open.insert(directory.to_owned()) {
                    break;
                }
            }
        }
        Self(open)
    }

    pub(super) fn is_real(&self, directory: &Path) -> bool {
        !self.0.contains(directory)
    }
}
