//! Finds what a sandbox changed by walking its head and layers.
//!
//! The base tree is looked at only where the head says something about it: beside each entry of the head, and beneath what was
//! deleted, replaced or renamed as a whole. A directory is visited as three views of one place: the layers' directories, what
//! shows through them, and what reality has at that path. Where nothing but reality shows through, only the layers are listed.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Dir, Mode, OFlags, ResolveFlags, open, openat2};
use rustix::io::Errno;

use crate::base::Bases;
use crate::change::{Base, Blocked, Change, ChangeKind, State, difference};
use crate::marks::Marks;
use crate::node::{Kind, Node, Time};
use crate::watch::Directory;

/// One copy-on-write tree of a sandbox.
#[derive(Clone, Debug)]
pub struct Tree {
    /// Where it lies in reality and in the sandbox.
    pub path: PathBuf,
    /// Its directories: the head, then the frozen layers, newest first.
    pub layers: Vec<PathBuf>,
    pub marks: Marks,
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
    /// When the sandbox was made.
    pub made_at: Time,
    /// Root's sandboxes own what they make; in a tree that belongs to somebody else, it shall belong to them.
    pub as_root: bool,
}

/// Everything that differs, by path, without flags and renames.
#[derive(Debug, Default)]
pub struct Found {
    pub changes: Vec<Change>,
    /// Directories that could not be listed; what is in them is not known.
    pub unreadable: Vec<PathBuf>,
    /// Disk space of the files in the heads.
    pub bytes: u64,
    /// The heads' directories.
    pub directories: Vec<Directory>,
}

/// Walks all trees. Entries that vanish meanwhile are skipped; freeze the sandbox first to get one moment.
#[must_use]
pub fn scan(scope: &Scope<'_>) -> Found {
    let mut found = Found::default();
    for tree in scope.trees {
        if let Some(mut walk) = Walk::begin(scope, tree, &mut found) {
            walk.run();
        }
    }
    found.changes.sort_by(|a, b| a.path.as_os_str().as_bytes().cmp(b.path.as_os_str().as_bytes()));
    found
}

struct Walk<'a> {
    scope: &'a Scope<'a>,
    tree: &'a Tree,
    found: &'a mut Found,
    layers: Vec<OwnedFd>,
    reality: Option<OwnedFd>,
    dev: u64,
    pending: Vec<Visit>,
}

/// One directory to look at. Paths are relative to the tree.
struct Visit {
    path: PathBuf,
    /// The layers that have it, newest first, and where.
    uppers: Vec<(usize, PathBuf)>,
    /// What of reality shows through.
    lower: Option<PathBuf>,
    /// Reality has a directory at `path`.
    has_before: bool,
    /// When the sandbox decided about what is here, if nothing of it is in a layer of its own.
    touched: Option<Time>,
    /// Whom new files belong to.
    owner: Option<(u32, u32)>,
    masked: bool,
}

/// One name in the layers.
enum Entry {
    Here { upper: usize, node: Node },
    Gone { touched: Option<Time> },
}

impl<'a> Walk<'a> {
    fn begin(scope: &'a Scope<'a>, tree: &'a Tree, found: &'a mut Found) -> Option<Self> {
        let layers: Vec<OwnedFd> = tree.layers.iter().filter_map(|l| hold(l).ok()).collect();
        let reality = hold(&tree.path).ok();
        let node = reality.as_ref().and_then(|fd| Node::at(fd, ".").ok());
        let top = Visit {
            path: PathBuf::new(),
            uppers: (0..layers.len()).map(|l| (l, PathBuf::new())).collect(),
            lower: (!tree.copied && reality.is_some()).then(PathBuf::new),
            has_before: reality.is_some(),
            touched: None,
            owner: node.as_ref().and_then(owner),
            masked: false,
        };
        let dev = node.as_ref().map_or(0, |n| n.dev);
        let mut walk = Self { scope, tree, found, layers, reality, dev, pending: vec![top] };
        if let (Some(before), Some(fd)) = (node, walk.layers.first())
            && let Ok(after) = Node::at(fd, ".")
        {
            let after = Some(State { node: after, at: tree.layers[0].clone(), marks: tree.marks });
            walk.note(PathBuf::new(), Some(before), after, None, false);
        }
        (!walk.layers.is_empty()).then_some(walk)
    }

    fn run(&mut self) {
        while let Some(visit) = self.pending.pop() {
            if let Err(errno) = self.visit(&visit)
                && errno != Errno::NOENT
            {
                self.found.unreadable.push(self.tree.path.join(&visit.path));
            }
        }
    }

    fn visit(&mut self, visit: &Visit) -> Result<(), Errno> {
        let mut uppers = Vec::with_capacity(visit.uppers.len());
        for (layer, path) in &visit.uppers {
            let directory = beneath(&self.layers[*layer], path)?;
            if *layer == 0 {
                let ctime = Node::at(&directory, ".")?.ctime;
                self.found.directories.push(Directory { path: self.tree.layers[0].join(path), ctime });
            }
            uppers.push((*layer, path, directory));
        }
        let before = self.reality.as_ref().filter(|_| visit.has_before).map(|fd| beneath(fd, &visit.path)).transpose()?;
        let is_plain = visit.has_before && visit.lower.as_deref() == Some(&visit.path);
        let lower = match (&visit.lower, &self.reality) {
            (Some(path), Some(fd)) if !is_plain => Some(beneath(fd, path)?),
            _ => None,
        };

        let mut names: BTreeMap<OsString, Option<Entry>> = BTreeMap::new();
        for (position, (_, _, directory)) in uppers.iter().enumerate() {
            self.list_layer(directory, position, &mut names)?;
        }
        // Where something else than reality shows through, both have to be listed.
        let is_none_through = visit.lower.is_none();
        if !is_plain {
            for directory in [&lower, &before].into_iter().flatten() {
                for name in list(directory)? {
                    names.entry(name).or_insert(None);
                }
            }
        }
        let hidden = self.hidden_in(visit);
        for (name, entry) in names {
            let is_masked = visit.masked || hidden.contains(&name.as_os_str());
            let path = visit.path.join(&name);
            let full = self.tree.path.join(&path);
            if self.scope.trees.iter().any(|t| t.path == full) {
                continue;
            }
            let visible = |fd: &Option<OwnedFd>| fd.as_ref().and_then(|fd| Node::at(fd, &name).ok()).filter(|n| n.dev == self.dev);
            let real = visible(&before);
            let known = if is_masked { None } else { real.clone() };
            let through = match (&entry, is_plain, is_none_through) {
                (None, false, false) if !is_masked => visible(&lower),
                _ => None,
            };
            let sub = self.below(visit, &uppers, &name, entry.as_ref(), known.as_ref(), through.as_ref());
            let touched = match &entry {
                Some(Entry::Here { node, .. }) => node.btime,
                Some(Entry::Gone { touched }) => *touched,
                None => visit.touched,
            };
            let after = match entry {
                Some(Entry::Here { upper, node }) => {
                    let (layer, at, _) = &uppers[upper];
                    Some(State { node, at: self.tree.layers[*layer].join(at).join(&name), marks: self.tree.marks })
                }
                Some(Entry::Gone { .. }) => None,
                None => through.zip(visit.lower.as_ref()).map(|(node, lower)| {
                    let at = self.tree.path.join(lower).join(&name);
                    State { node, at, marks: Marks::None }
                }),
            };
            // A copy never had what cannot be copied.
            if after.is_none() && self.tree.copied && known.as_ref().is_some_and(|n| n.kind.is_special()) {
                continue;
            }
            let after = after.map(|s| State { node: belonging_to(s.node, known.as_ref(), visit.owner, self.scope.as_root), ..s });
            let masked_over_something = is_masked && real.is_some() && after.is_some();
            self.note(path, known, after, touched, masked_over_something);
            self.pending.extend(sub.map(|s| Visit { touched, masked: is_masked, ..s }));
        }
        Ok(())
    }

    /// Lists one layer's directory; what a newer layer says about a name stands.
    fn list_layer(
        &mut self,
        directory: &OwnedFd,
        position: usize,
        names: &mut BTreeMap<OsString, Option<Entry>>,
    ) -> Result<(), Errno> {
        let marks = self.tree.marks;
        for name in list(directory)? {
            if marks.is_bookkeeping(&name) {
                continue;
            }
            let Ok(node) = Node::at(directory, &name) else { continue };
            if let Some(gone) = marks.whited_out(directory, &name, &node) {
                names.entry(gone).or_insert(Some(Entry::Gone { touched: node.btime }));
                continue;
            }
            if position == 0 && node.kind == Kind::File {
                self.found.bytes += node.blocks * 512;
            }
            names.entry(name).or_insert(Some(Entry::Here { upper: position, node }));
        }
        Ok(())
    }

    /// The visit of a directory on either side, unless nothing of it can differ.
    fn below(
        &self,
        visit: &Visit,
        uppers: &[(usize, &PathBuf, OwnedFd)],
        name: &OsStr,
        entry: Option<&Entry>,
        before: Option<&Node>,
        through: Option<&Node>,
    ) -> Option<Visit> {
        let is_directory = |n: Option<&Node>| n.is_some_and(|n| n.kind == Kind::Directory);
        let path = visit.path.join(name);
        let has_before = is_directory(before);
        let mut below = Visit {
            path: path.clone(),
            uppers: Vec::new(),
            lower: None,
            has_before,
            touched: None,
            owner: before.map_or(visit.owner, owner),
            masked: false,
        };
        match entry {
            Some(Entry::Here { upper, node }) if node.kind == Kind::Directory => {
                let mut is_covered = self.tree.copied;
                for (layer, at, directory) in &uppers[*upper..] {
                    if is_covered {
                        break;
                    }
                    let child = match beneath(directory, Path::new(name)) {
                        Ok(child) => child,
                        Err(Errno::NOENT) => continue,
                        // A whiteout, or a file: what is below it does not show.
                        Err(_) => {
                            is_covered = true;
                            break;
                        }
                    };
                    below.uppers.push((*layer, at.join(name)));
                    is_covered = self.tree.marks.is_opaque(&child);
                    if let Some(redirect) = self.tree.marks.redirect(&child) {
                        below.lower = redirected(&visit.path, &redirect);
                        is_covered = true;
                    }
                }
                if self.tree.copied {
                    below.uppers = vec![(uppers[*upper].0, uppers[*upper].1.join(name))];
                }
                if !is_covered {
                    // Shows through: what shows through the parent, at the same name.
                    let is_plain = visit.lower.as_deref() == Some(&visit.path);
                    let shows = if is_plain { has_before } else { self.is_real_directory(visit.lower.as_deref(), name) };
                    below.lower = visit.lower.as_ref().filter(|_| shows).map(|l| l.join(name));
                }
            }
            None if is_directory(through) => below.lower = visit.lower.as_ref().map(|l| l.join(name)),
            _ => {}
        }
        let same =
            below.uppers.is_empty() && (below.lower.as_deref() == Some(&path)) == has_before && below.lower.is_some() == has_before;
        (!same).then_some(below)
    }

    fn is_real_directory(&self, parent: Option<&Path>, name: &OsStr) -> bool {
        let (Some(parent), Some(reality)) = (parent, &self.reality) else { return false };
        beneath(reality, &parent.join(name)).is_ok()
    }

    fn hidden_in(&self, visit: &Visit) -> Vec<&'a OsStr> {
        let directory = self.tree.path.join(&visit.path);
        self.scope.masked.iter().filter(|m| m.parent() == Some(&directory)).filter_map(|m| m.file_name()).collect()
    }

    /// Compares the sides of one path and keeps what differs.
    fn note(
        &mut self,
        path: PathBuf,
        known: Option<Node>,
        after: Option<State>,
        touched: Option<Time>,
        masked_over_something: bool,
    ) {
        let full = if path.as_os_str().is_empty() { self.tree.path.clone() } else { self.tree.path.join(path) };
        let now = known.clone().map(|node| State { node, at: full.clone(), marks: Marks::None });
        let since = touched.filter(|t| *t > self.scope.made_at && !self.tree.copied).unwrap_or(self.scope.made_at);
        let (before, base) = self.scope.bases.start_of(&full, now.as_ref(), since);
        let owners_matter = self.scope.as_root || !self.tree.copied;
        let Some(kind) = difference(before.as_ref(), after.as_ref(), owners_matter) else {
            // Reality may have moved under a sandbox that did nothing here.
            return;
        };
        // Reality got there by itself.
        if base != Base::Reality && difference(now.as_ref(), after.as_ref(), owners_matter).is_none() {
            return;
        }
        let blocked = if kind == ChangeKind::Special {
            Some(Blocked::Special)
        } else if masked_over_something || self.scope.rewritten.contains(&full) {
            Some(Blocked::Masked)
        } else {
            None
        };
        self.found.changes.push(Change {
            path: full,
            kind,
            before,
            after,
            base,
            reality: known,
            blocked,
            flags: Vec::new(),
            ignored: false,
            outside: false,
            deletion: None,
            similarity: None,
        });
    }
}

/// Root does not take over a tree by editing it: what it makes there belongs to whom the rest belongs to.
fn belonging_to(mut node: Node, before: Option<&Node>, owner: Option<(u32, u32)>, as_root: bool) -> Node {
    if as_root && (node.uid, node.gid) == (0, 0) {
        let heir = match before {
            // The same file, given to root on purpose, keeps its birth; one that was written anew does not.
            Some(before) if before.uid != 0 && (before.size, before.mtime) != (node.size, node.mtime) => {
                Some((before.uid, before.gid))
            }
            Some(_) => None,
            None => owner,
        };
        if let Some((uid, gid)) = heir {
            (node.uid, node.gid) = (uid, gid);
        }
    }
    node
}

fn owner(node: &Node) -> Option<(u32, u32)> {
    (node.uid != 0).then_some((node.uid, node.gid))
}

/// A redirect is a name beside the renamed directory, or a path from the root of the tree.
fn redirected(parent: &Path, redirect: &OsStr) -> Option<PathBuf> {
    let redirect = Path::new(redirect);
    let path = match redirect.strip_prefix("/") {
        Ok(from_root) => from_root.to_owned(),
        Err(_) => parent.join(redirect),
    };
    let is_plain = path.components().all(|c| matches!(c, std::path::Component::Normal(_)));
    is_plain.then_some(path)
}

fn hold(path: &Path) -> Result<OwnedFd, Errno> {
    open(path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// A directory below a held one, whose path leads through no link and no other file system.
fn beneath(directory: &OwnedFd, path: &Path) -> Result<OwnedFd, Errno> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    openat2(directory, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty(), resolve)
}

fn list(directory: &OwnedFd) -> Result<Vec<OsString>, Errno> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(OsStr::from_bytes(name).to_owned());
        }
    }
    Ok(names)
}

/// The state of one path in reality.
#[must_use]
pub fn reality(path: &Path) -> Option<State> {
    let node = Node::at(CWD, path).ok()?;
    Some(State { node, at: path.to_owned(), marks: Marks::None })
}
