//! The change set of a sandbox: everything it changed, in an order and with the words a reviewer needs.

use std::collections::{HashMap, HashSet};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use crate::change::{Change, State};
use crate::dependencies::DependencyTrees;
use crate::digest::{self, Form};
use crate::ignored::{self, Rules};
use crate::packages::Packages;
use crate::risk::Account;
use crate::unreadable::Unreadable;
use crate::{moved, rename, risk, scan, seal};

/// What is to be made of the raw findings.
pub struct Options<'a> {
    pub project: &'a Path,
    /// The roots of the sandbox's trees.
    pub trees: &'a [PathBuf],
    /// The user's own ignore patterns.
    pub ignore: &'a [String],
    /// Whose tools execute what becomes real.
    pub account: &'a Account,
    pub depth: Depth,
    /// What the digest is made of.
    pub form: Form,
    /// What was found may go on changing: it is read once and for all.
    pub seals: bool,
    /// Files that git follows although they are ignored. Asked only when it matters.
    pub tracked: &'a dyn Fn() -> HashSet<PathBuf>,
    /// What of reality the sandbox was not to see. Asked only when it matters.
    pub hidden: &'a dyn Fn() -> Vec<PathBuf>,
    /// What an apply would write where reality moved; `None` if nothing. Asked in a review only.
    pub written: &'a dyn Fn(&Change) -> Option<State>,
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
    /// And what a reader must not overlook among what the project ignores, which `diff` does not list otherwise.
    Listing,
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
    /// Those among the changes that are taken or left as a whole; looked for in a review only.
    pub dependencies: DependencyTrees,
    /// What package managers installed and removed.
    pub packages: Packages,
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
    /// Those of them that the sandbox deleted.
    pub deleted: u64,
    pub bytes: u64,
    pub is_directory: bool,
}

impl ChangeSet {
    /// Sorts the raw findings out.
    #[must_use]
    pub fn of(found: scan::Found, options: &Options<'_>) -> Self {
        let (mut changes, mut unreadable) = (found.changes, found.unreadable);
        if options.seals {
            unreadable.extend(seal::seal(&mut changes));
        }
        let digest = digest::of(&changes, options.form);
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
        moved::mark(&mut changes);
        let mut dependencies = DependencyTrees::default();
        let is_flagged: fn(&Change) -> bool = match options.depth {
            Depth::Names => |_| false,
            Depth::Listing => |change| change.ignored,
            Depth::Review => |_| true,
        };
        if options.depth == Depth::Review {
            dependencies = DependencyTrees::among(&changes, options.project);
        }
        if changes.iter().any(is_flagged) {
            for unread in risk::flag(&mut changes, options, is_flagged) {
                if !unreadable.contains(&unread) {
                    unreadable.push(unread);
                }
            }
        }
        let packages = Packages::among(&changes, options.project);
        Self { changes, digest, collapsed: groups.collapsed, dependencies, packages, unreadable, bytes: found.bytes }
    }

    #[must_use]
    pub fn find(&self, path: &Path) -> Option<&Change> {
        let wanted = path.as_os_str().as_bytes();
        let at = self.changes.binary_search_by(|c| c.path.as_os_str().as_bytes().cmp(wanted)).ok()?;
        self.changes.get(at)
    }
}

/// Whether only git is to write there.
#[must_use]
pub fn is_in_repository(path: &Path) -> bool {
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
        let deleted = files * u64::from(change.after.is_none());
        if let Some(known) = self.numbers.get(group).and_then(|number| self.collapsed.get_mut(*number)) {
            known.files += files;
            known.deleted += deleted;
            known.bytes += bytes;
            return;
        }
        self.numbers.insert(group.to_owned(), self.collapsed.len());
        let is_directory = group != change.path || change.is_directory();
        self.collapsed.push(Collapsed { path: group.to_owned(), files, deleted, bytes, is_directory });
    }
}
