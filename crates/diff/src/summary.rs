//! How much a sandbox changed, and whether it matters.

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::change::{Change, ChangeKind};
use crate::commits::{self, Commits};
use crate::noise::is_noise;
use crate::packages::{PackageGroup, Packages};
use crate::scan::Found;
use crate::unreadable::Unreadable;

/// One of the first few changes, for a report.
#[derive(Clone, Debug, Serialize)]
pub struct Example {
    pub kind: ChangeKind,
    #[serde(with = "whatif_types::text::path")]
    pub path: PathBuf,
}

#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    pub changed_files: u64,
    /// Those of them that are gone.
    pub deleted: u64,
    /// Disk space of the files in the head.
    pub size_bytes: u64,
    /// Whether there is more than caches and logs.
    pub matters: bool,
    /// The first few that matter and belong to no package.
    pub examples: Vec<Example>,
    /// What was committed to the project's branches.
    pub commits: Vec<Commits>,
    /// What package managers installed and removed.
    pub packages: Vec<PackageGroup>,
    /// How many of the changed files are git's own, of the project's repository, and how many lie outside the project.
    #[serde(skip)]
    pub of_git: u64,
    #[serde(skip)]
    pub outside: u64,
    /// What could not be looked at, so that there may be more.
    #[serde(skip)]
    pub unreadable: Vec<Unreadable>,
}

const MOST_EXAMPLES: usize = 5;

#[must_use]
pub fn summarize(found: &Found, project: &Path) -> Summary {
    let mut summary = Summary {
        changed_files: count(found),
        deleted: found.changes.iter().filter(|change| change.after.is_none()).count() as u64,
        size_bytes: found.bytes,
        of_git: found.changes.iter().filter(|change| change.path.starts_with(project.join(".git"))).count() as u64,
        outside: found.changes.iter().filter(|change| !change.path.starts_with(project)).count() as u64,
        commits: commits::made(found, project),
        ..Summary::default()
    };
    // To delete what lies in the project is work, whatever it is.
    let is_deletion = |c: &Change| c.after.is_none() && c.path.starts_with(project);
    let packages = Packages::among(&found.changes, project);
    for change in found.changes.iter().filter(|c| !is_noise(&c.path, project) || is_deletion(c)) {
        summary.matters = true;
        if packages.around(&change.path).is_some() {
            continue;
        }
        if summary.examples.len() == MOST_EXAMPLES {
            break;
        }
        summary.examples.push(Example { kind: change.kind, path: change.path.clone() });
    }
    // What nobody has looked at may be all the work there is.
    summary.matters |= !found.unreadable.is_empty();
    summary.unreadable.clone_from(&found.unreadable);
    summary.packages = packages.into_groups();
    summary
}

/// What could not be looked at may have changed, and counts: a sandbox without changes is one that may be deleted.
fn count(found: &Found) -> u64 {
    let is_listed = |u: &&Unreadable| found.changes.iter().any(|c| c.path == u.path);
    (found.changes.len() + found.unreadable.iter().filter(|u| !is_listed(u)).count()) as u64
}
