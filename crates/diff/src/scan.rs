//! Finds what a sandbox changed by walking its head and layers.
//!
//! The base tree is looked at only where the head says something about it: beside each entry of the head, and beneath what was
//! deleted, replaced or renamed as a whole. A directory is visited as three views of one place: the layers' directories, what
//! shows through them, and what reality has at that path. Where nothing but reality shows through, only the layers are listed.

mod compare;
mod cut_short;
mod directory;
mod hidden;
mod moved;
mod names;
mod queue;
mod stack;
mod views;
mod walk;

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use whatif_overlay::Format;

use self::walk::Walk;
use crate::base::{self, Bases, Covered, Made};
use crate::change::{Change, State};
use crate::links::{self, Twin};
use crate::node::{Node, Time};
use crate::seen::Seen;
use crate::unreadable::Unreadable;
use crate::watch::{Directory, LastLook};

/// One copy-on-write tree of a sandbox.
#[derive(Clone, Debug)]
pub struct Tree {
    /// Where it lies in reality and in the sandbox.
    pub path: PathBuf,
    /// Its directories: the head, then the frozen layers, newest first. All but the head must be there. Of copies only the first
    /// one that exists counts.
    pub layers: Vec<PathBuf>,
    pub marks: Format,
    /// A full copy rather than an overlay: what is missing in it was deleted.
    pub copied: bool,
}

/// What to look at, and what is known about it.
#[derive(Debug)]
pub struct Scope<'a> {
    pub trees: &'a [Tree],
    /// Absolute paths that are not there inside, whatever reality has; the state directory is one of them.
    pub masked: &'a [PathBuf],
    /// Files that are shown with other content than they have.
    pub rewritten: &'a [PathBuf],
    pub bases: &'a Bases,
    /// What is known about the view through which the sandbox saw reality.
    pub seen: Option<&'a Seen<'a>>,
    /// What of the trees to look at.
    pub reach: Reach<'a>,
    /// When the sandbox was made.
    pub made_at: Time,
    /// When its older layers came from elsewhere. Nothing tells when what is in them was touched.
    pub arrived_at: Option<Time>,
    /// Root's sandboxes own what they make; in a tree that belongs to another user, it shall belong to them.
    pub as_root: bool,
}

impl<'a> Scope<'a> {
    /// All of some trees, in which nothing is masked, of a sandbox that was made at some time and of whose view nothing is known.
    #[must_use]
    pub fn whole(trees: &'a [Tree], bases: &'a Bases, made_at: Time) -> Self {
        Self {
            trees,
            masked: &[],
            rewritten: &[],
            bases,
            seen: None,
            reach: Reach::Whole,
            made_at,
            arrived_at: None,
            as_root: false,
        }
    }
}

/// What of the trees to look at.
#[derive(Clone, Copy, Debug)]
pub enum Reach<'a> {
    /// Everything that the layers say.
    Whole,
    /// The names that the heads have. The layers below are asked about these alone: they tell what shows through a head's
    /// directory, and since when the sandbox has had a say about a name.
    Heads,
    /// The same, without what was there at this look.
    News(&'a LastLook),
}

/// Everything that differs, by path, without flags and renames.
#[derive(Debug, Default)]
pub struct Found {
    pub changes: Vec<Change>,
    /// What could not be looked at, or not well enough: directories, of which nothing below them is known either, and files.
    pub unreadable: Vec<Unreadable>,
    /// Disk space of the files in the heads.
    pub bytes: u64,
    /// The heads' directories.
    pub directories: Vec<Directory>,
    /// Directories that are shown at another place than reality has them.
    pub renamed: Vec<Renamed>,
    /// What of reality shows through them.
    pub through: Vec<Through>,
    /// What the heads have of reality without a change of their own, if what it was was not kept yet.
    pub unchanged: Vec<Unchanged>,
    /// Directories of reality that other ones of the sandbox cover; not those in them.
    pub covered: Vec<Covered>,
    /// What reality has where the sandbox has the same, although it started from something else. Should reality go back to that, the
    /// sandbox's change is one again, unless it was rebased meanwhile.
    pub agreed: Vec<Unchanged>,
    /// What reality changed and the sandbox has as it started from it.
    pub behind: Vec<Change>,
    /// What the sandbox deleted and reality does not have either.
    pub gone: Vec<PathBuf>,
    /// What the sandbox deleted in a head's directory without a mark that says so: a new view of the head would show it again.
    pub unmarked: Vec<PathBuf>,
    /// Unchanged names of files that have several, until they are told to the changes.
    pub twins: Vec<Twin>,
}

/// A directory that is only on the way to something, or a file that was copied up for nothing.
#[derive(Clone, Debug)]
pub struct Unchanged {
    /// What reality has.
    pub now: State,
    /// The head's file that is the same.
    pub copy: Option<State>,
    /// The head is a copy of reality, and is copied again with every snapshot: no inode stays the same.
    pub is_in_copy: bool,
}

impl Unchanged {
    /// The inode of the head's file that is the same, and its time of change.
    #[must_use]
    pub fn equal_to(&self) -> Option<(u64, Time)> {
        self.copy.as_ref().map(|copy| (copy.node.ino, copy.node.ctime))
    }
}

/// A directory through which another one of reality shows.
#[derive(Clone, Debug)]
pub struct Renamed {
    pub path: PathBuf,
    /// The place of the other one, relative to the tree.
    pub source: PathBuf,
    /// The layer's directory that says so.
    pub at: PathBuf,
    /// No older layer has a part of it: all that it does not have itself is reality's.
    pub is_lowest: bool,
}

/// Something that is shown at another path than reality has it.
#[derive(Clone, Debug)]
pub struct Through {
    pub path: PathBuf,
    /// Where reality has it.
    pub at: PathBuf,
}

impl Found {
    /// For a caller that must know everything about a project, except what the sandbox closed to its own user somewhere in it. If
    /// all of it is closed, nothing is known.
    pub fn complete(self, project: &Path) -> Result<Self, Unreadable> {
        let is_all_of_it = |u: &Unreadable| project.starts_with(&u.path);
        match self.unreadable.iter().find(|u| !u.is_closed() || is_all_of_it(u)) {
            Some(unreadable) => Err(unreadable.clone()),
            None => Ok(self),
        }
    }

    fn add(&mut self, other: Self) {
        self.changes.extend(other.changes);
        self.unreadable.extend(other.unreadable);
        self.directories.extend(other.directories);
        self.renamed.extend(other.renamed);
        self.through.extend(other.through);
        self.unchanged.extend(other.unchanged);
        self.covered.extend(other.covered);
        self.agreed.extend(other.agreed);
        self.behind.extend(other.behind);
        self.gone.extend(other.gone);
        self.unmarked.extend(other.unmarked);
        self.twins.extend(other.twins);
        self.bytes += other.bytes;
    }
}

/// Walks all trees. Entries that vanish meanwhile are skipped; freeze the sandbox first to get one moment. What cannot be looked at
/// is in `unreadable`: nothing is concluded from it.
#[must_use]
pub fn scan(scope: &Scope<'_>) -> Found {
    let mut found = Found::default();
    for tree in scope.trees {
        Walk::through(scope, tree, &mut found);
    }
    found.through.sort_by(|a, b| a.path.cmp(&b.path));
    found.changes.sort_by(|a, b| a.path.as_os_str().as_bytes().cmp(b.path.as_os_str().as_bytes()));
    base::confirm(scope.bases, &mut found.changes);
    moved::explain(&mut found.changes);
    links::join(&mut found);
    for change in &mut found.changes {
        change.was_applied = scope.bases.made(&change.path) >= Made::Real;
    }
    found
}

/// The state of one path in reality; `None` if nothing is there.
pub fn reality(path: &Path) -> Result<Option<State>, Unreadable> {
    Ok(Node::of(path)?.map(|node| State::new(node, path.to_owned(), Format::None)))
}
