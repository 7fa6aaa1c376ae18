//! Whether what reality has at a path is what a sandbox saw there.
//!
//! The kernel remembers what it looked up for a mount. A file that reality replaces under a living view (a rename over it, as
//! editors, git and an apply do it) may still be seen, and copied up, as it was. So what is in reality when a base is to be kept
//! counts only where nothing was put in its place since the view was fresh:
//!
//! - A name was not given to another file since a moment if the change time of its file or of its directory is earlier. (A rename
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
use whatif_overlay::Format;
use whatif_sys::direct;
use whatif_sys::file_handle::FileHandle;

use crate::base::{Bases, Made};
use crate::node::{Kind, Node, Time};
use crate::said;
use crate::scan::Tree;

/// So many names of a directory are looked at for an old file.
const MOST_LISTED: usize = 256;
/// So many old files of a directory are asked about.
const MOST_ASKED: usize = 8;

/// What is known about a sandbox's view of reality.
pub struct Seen<'a> {
    /// Everything in the present view was looked up after this. What the layers got from this moment on came through that view; what
    /// they got before, through an earlier one.
    pub fresh_at: Time,
    /// The same for all views there ever were: the sandbox was made then.
    pub made_at: Time,
    /// The project's directory, and its device and inode when the view was fresh.
    pub project: Option<(&'a Path, (u64, u64))>,
    /// The directories that its trees are mounted over, with device and inode.
    pub roots: &'a [(&'a Path, (u64, u64))],
    /// Opens the root directory of a living sandbox whose view can be asked.
    pub enter: &'a (dyn Fn() -> Option<OwnedFd> + Sync),
    inside: OnceLock<Option<OwnedFd>>,
    directories: Mutex<HashMap<(PathBuf, Time), bool>>,
    /// Directories of which the view is known to show others, or not to.
    others: Mutex<HashMap<PathBuf, bool>>,
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

/// One path that only the sandbox has, and of which nothing was kept yet.
pub(crate) struct MadeInside<'a> {
    pub path: &'a Path,
    pub node: &'a Node,
    /// Where it lies.
    pub copy: &'a Path,
    /// When the layers got it.
    pub at: Option<Time>,
    /// Whether the sandbox does not see reality's file at a path, or sees another one.
    pub is_hidden: &'a dyn Fn(&Path) -> bool,
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
        fresh_at: Option<Time>,
        made_at: Time,
        project: Option<(&'a Path, (u64, u64))>,
        roots: &'a [(&'a Path, (u64, u64))],
        enter: &'a (dyn Fn() -> Option<OwnedFd> + Sync),
    ) -> Self {
        let fresh_at = fresh_at.unwrap_or(made_at);
        Self {
            fresh_at,
            made_at: made_at.min(fresh_at),
            project,
            roots,
            enter,
            inside: OnceLock::new(),
            directories: Mutex::default(),
            others: Mutex::default(),
        }
    }

    /// Whether something that reality does not have may be what reality had here, and deleted or moved away while the view showed it.
    /// What was renamed inside has the mark of a copy, too: it counts only where reality's directory changed since.
    pub(crate) fn outlived_reality(&self, place: Place<'_>, made: &MadeInside<'_>) -> bool {
        let since = self.since(made.at);
        let Some(directory) = made.path.parent().filter(|_| made.node.kind != Kind::Directory) else { return false };
        // One that this sandbox's apply made or changed has what was applied; the rest is still only the sandbox's.
        if changed_at(directory).is_none_or(|ctime| ctime < since) || place.bases.made(directory) >= Made::Real {
            return false;
        }
        // What cannot be looked at proves nothing. The kernel marks no copy of a file that was deleted.
        let is_copy = said::is_copied_up(place.tree.marks, made.copy, made.node.kind).unwrap_or(false);
        is_copy || (since == self.fresh_at && self.shows_another_directory(place.tree, directory, made.is_hidden))
    }

    /// Whether the view has none of the files that lie in reality's directory, and that the sandbox did not touch.
    fn shows_another_directory(&self, tree: &Tree, directory: &Path, is_hidden: &dyn Fn(&Path) -> bool) -> bool {
        let key = directory.to_owned();
        let known = self.others.lock().ok().and_then(|known| known.get(&key).copied());
        let look = || {
            let entries = std::fs::read_dir(directory).ok()?;
            let is_touched = |path: &Path| {
                let inside = path.strip_prefix(&tree.path).unwrap_or(path);
                tree.layers.iter().any(|layer| !matches!(Node::of(&layer.join(inside)), Ok(None)))
            };
            let paths = entries.take(MOST_LISTED).filter_map(|e| Some(e.ok()?.path()));
            let files = paths.filter_map(|path| node(&path).filter(|n| n.kind == Kind::File && n.nlink == 1).map(|n| (path, n)));
            let mut files = files.filter(|(path, _)| !is_touched(path) && !is_hidden(path)).take(MOST_ASKED).peekable();
            files.peek()?;
            let inside = self.open_inside(directory)?;
            let is_shown = |path: &Path, node: &Node| {
                path.file_name().and_then(|name| Node::at(&inside, name).ok()).is_some_and(|inside| inside.ino == node.ino)
            };
            Some(!files.any(|(path, node)| is_shown(&path, &node)))
        };
        known.unwrap_or_else(|| {
            let is_another = look().unwrap_or(false);
            if let Ok(mut known) = self.others.lock() {
                known.insert(key, is_another);
            }
            is_another
        })
    }

    /// Everything that the sandbox saw when it touched something was looked up after this.
    fn since(&self, touched: Option<Time>) -> Time {
        if touched.is_some_and(|at| at >= self.fresh_at) { self.fresh_at } else { self.made_at }
    }

    /// Whether the sandbox saw what reality has.
    pub(crate) fn shows(&self, place: Place<'_>, touched: &Touched<'_>) -> bool {
        let since = self.since(touched.at);
        let Some(directory) = touched.path.parent() else { return true };
        if touched.now.kind == Kind::Directory {
            return self.is_same_directory(place, touched.path, since);
        }
        // Through what a process serves, a file may be seen as it was before reality wrote to it.
        if place.tree.marks == Format::Fuse {
            return touched.now.ctime < since && self.is_same_directory(place, directory, since);
        }
        let stayed = touched.now.ctime < since || changed_at(directory).is_some_and(|ctime| ctime < since);
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
        // A mount goes on showing the directory that it was made of.
        if let Some((_, mounted)) = self.roots.iter().find(|(root, _)| *root == path) {
            match (now.dev, now.ino) == *mounted {
                false => return false,
                true if since == self.fresh_at => return true,
                true => {}
            }
        }
        // An apply that takes part of it moves its time; it is still the one that was found to be seen before.
        if place.bases.directory_seen(path).is_some_and(|known| known == (now.dev, now.ino)) {
            return true;
        }
        if let Some((_, known)) = self.project.filter(|(project, _)| *project == path && since == self.fresh_at) {
            return (now.dev, now.ino) == known;
        }
        let stayed = now.ctime < since || changed_at(parent).is_some_and(|ctime| ctime < since);
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
        let is_old = |n: &Node| n.kind == Kind::File && n.nlink == 1 && n.ctime < since;
        let paths = entries.take(MOST_LISTED).filter_map(|e| Some(e.ok()?.path()));
        let mut old = paths.filter_map(|path| node(&path).filter(is_old).map(|node| (path, node))).take(MOST_ASKED);
        old.any(|(path, node)| self.look_inside(&path).is_some_and(|inside| inside.has_same_file_as(&node)))
    }

    fn look_inside(&self, path: &Path) -> Option<Node> {
        let directory = self.open_inside(path.parent()?)?;
        Node::at(directory, path.file_name()?).ok()
    }

    fn open_inside(&self, directory: &Path) -> Option<OwnedFd> {
        let root = self.inside.get_or_init(self.enter).as_ref()?;
        let directory = directory.strip_prefix("/").ok()?;
        let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        openat2(root, directory, flags, Mode::empty(), resolve).ok()
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
pub(crate) fn is_origin(marks: Format, copy: &Path, reality: &Path) -> bool {
    let origin = direct::hold(copy).and_then(|held| marks.origin_handle(&held));
    let Ok(Some(origin)) = origin else { return false };
    FileHandle::at(CWD, reality).is_ok_and(|handle| handle == origin)
}
