//! The change set of a sandbox: everything it changed, in an order and with the words a reviewer needs.

use std::collections::{HashMap, HashSet};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::change::Change;
use crate::ignored::{self, Rules};
use crate::unreadable::Unreadable;
use crate::{digest, rename, risk, scan};

/// What is to be made of the raw findings.
pub struct Options<'a> {
    pub project: &'a Path,
    /// The roots of the sandbox's trees.
    pub trees: &'a [PathBuf],
    /// The user's own ignore patterns.
    pub ignore: &'a [String],
    pub depth: Depth,
    /// Files that git follows although they are ignored. Asked only when it matters.
    pub tracked: &'a dyn Fn() -> HashSet<PathBuf>,
}

impl std::fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options").field("project", &self.project).finish_non_exhaustive()
    }
}

/// How much is to be found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// What changed and how.
    Names,
    /// And what a reviewer must not overlook about it, which takes reading it.
    Review,
}

#[derive(Debug)]
pub struct ChangeSet {
    pub changes: Vec<Change>,
    /// Over all of them.
    pub digest: String,
    /// Ignored directories and what is in them.
    pub collapsed: Vec<Collapsed>,
    /// What could not be looked at, or not well enough to know what to say about it.
    pub unreadable: Vec<Unreadable>,
    /// Disk space of the heads.
    pub bytes: u64,
}

/// Ignored changes in one directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collapsed {
    pub path: PathBuf,
    pub files: u64,
    pub bytes: u64,
    pub is_directory: bool,
}

impl ChangeSet {
    /// Sorts the raw findings out.
    #[must_use]
    pub fn of(found: scan::Found, options: &Options<'_>) -> Self {
        let digest = digest::of(&found.changes);
        let mut changes = found.changes;
        let mut rules = Rules::new(options.project, &changes, options.ignore);
        let mut groups = Groups::default();
        let mut tracked: Option<HashSet<PathBuf>> = None;
        for change in &mut changes {
            change.outside = !change.path.starts_with(options.project);
            change.ignored = rules.is_ignored(&change.path, change.is_directory());
            if change.ignored && change.before.is_some() && !is_in_repository(&change.path) {
                let tracked = tracked.get_or_insert_with(options.tracked);
                change.ignored = !tracked.contains(&change.path);
            }
            if change.ignored {
                groups.count(ignored::group(&mut rules, &change.path), change);
            }
        }
        rename::join(&mut changes);
        let mut unreadable = found.unreadable;
        if options.depth == Depth::Review {
            for change in &mut changes {
                let (flags, unread) = risk::flags(change, options.project, options.trees);
                change.flags = flags;
                // Of what is ignored only names and sizes are shown.
                unreadable.extend(unread.filter(|u| !change.ignored && !unreadable.contains(u)));
            }
        }
        Self { changes, digest, collapsed: groups.collapsed, unreadable, bytes: found.bytes }
    }

    #[must_use]
    pub fn find(&self, path: &Path) -> Option<&Change> {
        let wanted = path.as_os_str().as_bytes();
        let at = self.changes.binary_search_by(|c| c.path.as_os_str().as_bytes().cmp(wanted)).ok()?;
        self.changes.get(at)
    }
}

fn is_in_repository(path: &Path) -> bool {
    path.components().any(|c| c.as_os_str() == ".git")
}

/// Ignored changes by their groups, in the order in which the groups were met.
#[derive(Default)]
struct Groups {
    collapsed: Vec<Collapsed>,
    numbers: HashMap<PathBuf, usize>,
}

impl Groups {
    fn count(&mut self, group: &Path, change: &Change) {
        let files = u64::from(!change.is_directory());
        let bytes = files * change.after.as_ref().map_or(0, |a| a.node.size);
        if let Some(known) = self.numbers.get(group).and_then(|number| self.collapsed.get_mut(*number)) {
            known.files += files;
            known.bytes += bytes;
            return;
        }
        self.numbers.insert(group.to_owned(), self.collapsed.len());
        let is_directory = group != change.path || change.is_directory();
        self.collapsed.push(Collapsed { path: group.to_owned(), files, bytes, is_directory });
    }
}
