//! Whether what reality has at a path is what a sandbox saw there.
//!
//! The kernel remembers what it looked up for a mount. A file that reality replaces under a living view (a rename over it, as
//! editors, git and an apply do it) may still be seen, and copied up, as it was. So what is in reality when a base is to be kept
//! counts only where nothing was put in its place since the view was fresh:
//!
//! - A name was not given to another file since a moment if the change time of its file or of its directory is not later. (A rename
//!   moves both. Exchanging two files on xfs moves only the directory's.)
//! - That holds for every directory on the way, too: one that is swapped brings old files with old times along.
//! - Where times leave a doubt, the mark of a copy-up tells which file it was of (sandboxes of root), and the view itself says which
//!   inode it has (`stat` inside gives the number of reality's file, also of a replaced one). Of directories it gives none, but of an
//!   old file in them.
//!
//! What is in doubt after all that is unknown. Writes to a file that stays the same are no matter: the view shows them.

use std::collections::HashMap;
use std::fmt;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, OnceLock};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use whatif_sys::file_handle::FileHandle;

use crate::base::Bases;
use crate::marks::Marks;
use crate::node::{Kind, Node, Time};
use crate::scan::Tree;

/// So many names of a directory are looked at for an old file.
const MOST_LISTED: usize = 256;
/// So many old files of a directory are asked about.
const MOST_ASKED: usize = 8;

/// What is known about a sandbox's view of reality.
pub struct Seen<'a> {
    /// Everything in the present view was looked up after this.
    pub fresh_at: Time,
    /// What the layers got from this moment on came through the present view; what came before, through an earlier one.
    pub tick: Time,
    /// The same for all views there ever were: the sandbox was made then.
    pub made_at: Time,
    /// The project's directory, and its device and inode when the view was fresh.
    pub project: Option<(&'a Path, (u64, u64))>,
    /// Opens the root directory of a living sandbox whose view can be asked.
    pub enter: &'a (dyn Fn() -> Option<OwnedFd> + Sync),
    inside: OnceLock<Option<OwnedFd>>,
    directories: Mutex<HashMap<(PathBuf, Time), bool>>,
}

/// One path that a sandbox changed and of which nothing was kept yet.
pub(crate) struct Touched<'a> {
    pub path: &'a Path,
    /// What reality has there.
    pub now: &'a Node,
    /// What the sandbox has, and where it lies.
    pub after: Option<(&'a Node, &'a Path)>,
    /// When the layers got it.
    pub at: Option<Time>,
}

/// The tree a path lies in, and what was found out about it before.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub tree: &'a Tree,
    pub bases: &'a Bases,
}

impl<'a> Seen<'a> {
    #[must_use]
    pub fn new(
        fresh: Option<(Time, Time)>,
        made_at: Time,
        project: Option<(&'a Path, (u64, u64))>,
        enter: &'a (dyn Fn() -> Option<OwnedFd> + Sync),
    ) -> Self {
        let (fresh_at, tick) = fresh.unwrap_or((made_at, made_at));
        Self {
            fresh_at,
            tick,
            made_at: made_at.min(fresh_at),
            project,
            enter,
            inside: OnceLock::new(),
            directories: Mutex::default(),
        }
    }

    /// Whether the sandbox saw what reality has.
    pub(crate) fn shows(&self, place: Place<'_>, touched: &Touched<'_>) -> bool {
        let since = if touched.at.is_some_and(|at| at >= self.tick) { self.fresh_at } else { self.made_at };
        let Some(directory) = touched.path.parent() else { return true };
        if touched.now.kind == Kind::Directory {
            return self.is_same_directory(place, touched.path, since);
        }
        let stayed = touched.now.ctime <= since || changed_at(directory).is_some_and(|ctime| ctime <= since);
        (stayed && self.is_same_directory(place, directory, since)) || self.was_copied_from(place.tree, touched)
    }

    /// The file that was copied up says, or the view, whose copy it is.
    fn was_copied_from(&self, tree: &Tree, touched: &Touched<'_>) -> bool {
        let Some((node, at)) = touched.after.filter(|(node, _)| node.kind == touched.now.kind) else { return false };
        if is_origin(tree.marks, at, touched.path) {
            return true;
        }
        // Without a mark a copy has its own number inside.
        let is_own = |inside: &Node| (inside.ino, inside.kind) == (touched.now.ino, touched.now.kind) && inside.ino != node.ino;
        self.look_inside(touched.path).is_some_and(|inside| is_own(&inside))
    }

    /// Whether the sandbox saw, at this path, the directory that reality has there.
    fn is_same_directory(&self, place: Place<'_>, path: &Path, since: Time) -> bool {
        let Some(parent) = path.parent() else { return true };
        let key = (path.to_owned(), since);
        let known = self.directories.lock().ok().and_then(|known| known.get(&key).copied());
        if let Some(known) = known {
            return known;
        }
        let is_same = self.look_at_directory(place, path, parent, since);
        if let Ok(mut known) = self.directories.lock() {
            known.insert(key, is_same);
        }
        is_same
    }

    fn look_at_directory(&self, place: Place<'_>, path: &Path, parent: &Path, since: Time) -> bool {
        let Some(now) = node(path) else { return false };
        // An apply that takes part of it moves its time; it is still the one that was found to be seen before.
        if place.bases.directory_seen(path).is_some_and(|known| known == (now.dev, now.ino)) {
            return true;
        }
        if let Some((_, known)) = self.project.filter(|(project, _)| *project == path && since == self.fresh_at) {
            return (now.dev, now.ino) == known;
        }
        let stayed = now.ctime <= since || changed_at(parent).is_some_and(|ctime| ctime <= since);
        if stayed && self.is_same_directory(place, parent, since) {
            return true;
        }
        let tree = place.tree;
        let copied = path.strip_prefix(&tree.path).ok().zip(tree.layers.first());
        if copied.is_some_and(|(relative, head)| is_origin(tree.marks, &head.join(relative), path)) {
            return true;
        }
        since == self.fresh_at && self.has_old_file_of(path, since)
    }

    /// A file that was not moved since lies in the same directory as then; if the view has it, it has that directory.
    fn has_old_file_of(&self, directory: &Path, since: Time) -> bool {
        let Ok(entries) = std::fs::read_dir(directory) else { return false };
        let is_old = |n: &Node| n.kind == Kind::File && n.nlink == 1 && n.ctime <= since;
        let paths = entries.take(MOST_LISTED).filter_map(|e| Some(e.ok()?.path()));
        let mut old = paths.filter_map(|path| node(&path).filter(is_old).map(|node| (path, node))).take(MOST_ASKED);
        old.any(|(path, node)| self.look_inside(&path).is_some_and(|inside| inside.has_same_file_as(&node)))
    }

    fn look_inside(&self, path: &Path) -> Option<Node> {
        let root = self.inside.get_or_init(self.enter).as_ref()?;
        let (directory, name) = (path.parent()?.strip_prefix("/").ok()?, path.file_name()?);
        let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = openat2(root, directory, flags, Mode::empty(), resolve).ok()?;
        Node::at(directory, name).ok()
    }
}

impl Node {
    /// The device is left out: an overlay has its own.
    fn has_same_file_as(&self, other: &Self) -> bool {
        (self.ino, self.kind, self.size, self.mtime) == (other.ino, other.kind, other.size, other.mtime)
    }
}

impl fmt::Debug for Seen<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seen").field("fresh_at", &self.fresh_at).field("made_at", &self.made_at).finish_non_exhaustive()
    }
}

fn changed_at(directory: &Path) -> Option<Time> {
    node(directory).map(|n| n.ctime)
}

/// What cannot be looked at proves nothing, and is in doubt like what is not there.
fn node(path: &Path) -> Option<Node> {
    Node::of(path).ok().flatten()
}

/// Whether the mark of a copy-up names reality's file. Without a mark that can be compared it proves nothing either way.
fn is_origin(marks: Marks, copy: &Path, reality: &Path) -> bool {
    let Some(origin) = marks.origin(copy) else { return false };
    FileHandle::at(CWD, reality).is_ok_and(|handle| handle == origin)
}
