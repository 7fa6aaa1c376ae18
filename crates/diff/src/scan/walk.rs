//! The walk through one tree.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::thread::Builder;

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use whatif_overlay::Format;
use whatif_sys::absence::OrAbsent;

use super::compare::belong_to;
use super::directory::{gone_meanwhile, hold, is_mounted, list};
use super::hidden::Hidden;
use super::names::{Entry, Names, Said};
use super::queue::Queue;
use super::stack::Layer;
use super::views::{Listing, Lower, Views};
use super::{Found, Reach, Scope, Through, Tree};
use crate::base::Made;
use crate::change::{Base, Change, ChangeKind, State};
use crate::copied::Copied;
use crate::node::{Kind, Node, Time};
use crate::said;
use crate::unreadable::Unreadable;

/// One tree, opened.
pub(super) struct Walk<'a> {
    pub(super) scope: &'a Scope<'a>,
    pub(super) tree: &'a Tree,
    pub(super) layers: Vec<Layer>,
    pub(super) reality: Option<OwnedFd>,
    dev: u64,
    pub(super) hidden: Hidden<'a>,
    /// What was copied, if the tree is a copy.
    pub(super) copied: Option<Copied>,
}

/// What one thread found, and what it found to be looked at.
#[derive(Default)]
pub(super) struct Finding {
    pub found: Found,
    /// Directories that the sandbox did not change and reality has no more. They count if something in them was changed.
    pub missed: Vec<Change>,
    pending: Vec<Visit>,
}

impl Finding {
    /// A directory that the sandbox has as it was, and reality has no more, or has something else in its place.
    pub(super) fn miss(&mut self, path: PathBuf, now: Option<Node>, after: State) {
        let before = now.clone().map(|node| State::new(node, path.clone(), Format::None));
        let kind = if before.is_some() { ChangeKind::Type } else { ChangeKind::Add };
        self.missed.push(Change { base: Base::Lost, reality: now, ..Change::new(path, kind, before, Some(after)) });
    }

    pub(super) fn unreadable(&mut self, path: &Path, errno: Errno) {
        self.found.unreadable.push(Unreadable::new(path, errno));
    }
}

/// So many directories keep a second thread busy for longer than it takes to start one.
const WORTH_A_THREAD: usize = 64;
const THREADS: usize = 2;
/// What a visit holds besides the layers: reality's directory, what shows through, a listing, and what is compared.
const DESCRIPTORS_OF_A_VISIT: usize = 6;
/// The standard streams, locks, the records and connections.
const DESCRIPTORS_ELSEWHERE: usize = 16;

/// One directory to look at. Paths are relative to the tree.
pub(super) struct Visit {
    pub path: PathBuf,
    /// The layers that may have it, newest first, and where; the first one has it.
    pub uppers: Vec<(usize, PathBuf)>,
    /// What of reality shows through if it is a directory, unless a layer says otherwise.
    pub lower: Option<PathBuf>,
    /// Reality has a directory at `path`.
    pub has_before: bool,
    /// When the sandbox decided about what is here, if nothing of it is in a layer of its own.
    pub touched: Option<Time>,
    /// Whom new files belong to.
    pub owner: Option<(u32, u32)>,
    pub masked: bool,
    /// Reality has something here, or above, that is masked.
    pub is_over_masked: bool,
    /// What shows through the directory above is reality at the same path.
    pub is_in_place: bool,
    /// The head made or moved this directory or one above it: what shows here is its doing, not that of an older layer.
    pub is_put_by_head: bool,
    /// The directory itself on both sides, still to be compared.
    pub itself: Option<(Option<Node>, State)>,
}

impl<'a> Walk<'a> {
    /// Walks one tree and adds what it found.
    pub(super) fn through(scope: &'a Scope<'a>, tree: &'a Tree, found: &mut Found) {
        let (walk, top) = match Self::open_tree(scope, tree) {
            Ok(Some(opened)) => opened,
            Ok(None) => return,
            Err(errno) => return found.unreadable.push(Unreadable::new(&tree.path, errno)),
        };
        let mut finding = Finding { found: std::mem::take(found), missed: Vec::new(), pending: vec![top] };
        while let Some(visit) = finding.pending.pop() {
            walk.look(visit, &mut finding);
            if finding.pending.len() >= WORTH_A_THREAD {
                walk.share(&mut finding);
            }
        }
        // What the sandbox changed in a directory cannot become real without it.
        if !finding.missed.is_empty() {
            let changed = finding.found.changes.iter().filter(|c| c.after.is_some());
            let needed: HashSet<PathBuf> = changed.flat_map(|c| c.path.ancestors().map(Path::to_owned)).collect();
            let (wanted, unchanged): (Vec<Change>, Vec<Change>) =
                finding.missed.into_iter().partition(|d| needed.contains(&d.path));
            finding.found.changes.extend(wanted);
            finding.found.behind.extend(unchanged.into_iter().filter(|d| d.reality.is_some()));
        }
        *found = finding.found;
    }

    /// Nothing if there is no layer.
    fn open_tree(scope: &'a Scope<'a>, tree: &'a Tree) -> Result<Option<(Self, Visit)>, Errno> {
        let layers = Layer::open_all(tree)?;
        let Some(newest) = layers.first() else { return Ok(None) };
        if !newest.is_head && !matches!(scope.reach, Reach::Whole) {
            return Ok(None);
        }
        let reality = hold(&tree.path).or_absent()?;
        let before = reality.as_ref().map(|fd| Node::at(fd, ".")).transpose()?;
        let after = Node::at(&newest.root, ".")?;
        let top = Visit {
            path: PathBuf::new(),
            uppers: (0..layers.len()).map(|l| (l, PathBuf::new())).collect(),
            lower: (!tree.copied && reality.is_some()).then(PathBuf::new),
            has_before: reality.is_some(),
            touched: None,
            owner: before.as_ref().and_then(owner),
            masked: false,
            is_over_masked: false,
            is_in_place: true,
            is_put_by_head: false,
            itself: before.is_some().then(|| (before.clone(), State::new(after, newest.path.clone(), tree.marks))),
        };
        let hidden = Hidden::new(scope.masked);
        let dev = before.map_or(0, |n| n.dev);
        let copied = if tree.copied { Some(Self::copied(scope, tree, &layers)?) } else { None };
        Ok(Some((Self { scope, tree, layers, reality, dev, hidden, copied }, top)))
    }

    /// What the copy was made from, and what applies made real since.
    fn copied(scope: &Scope<'_>, tree: &Tree, layers: &[Layer]) -> Result<Copied, Errno> {
        let Some(copy) = layers.first() else { return Err(Errno::NOENT) };
        let mut copied = Copied::load(&copy.path).map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?;
        for path in scope.bases.known_in_reality().filter_map(|path| path.strip_prefix(&tree.path).ok()) {
            copied.add_real(path);
        }
        Ok(copied)
    }

    /// Goes on with several threads until nothing is pending.
    fn share(&self, finding: &mut Finding) {
        let threads = self.threads();
        let queue = Queue::new(std::mem::take(&mut finding.pending), threads);
        let work = || {
            let mut own = Finding::default();
            while let Some(visits) = queue.take() {
                own.pending = visits;
                while let Some(visit) = own.pending.pop() {
                    self.look(visit, &mut own);
                    if queue.is_short() {
                        queue.give(&mut own.pending);
                    }
                }
            }
            (own.found, own.missed)
        };
        std::thread::scope(|scope| {
            // If there can be no more threads, it takes longer.
            let start = |_| Builder::new().spawn_scoped(scope, work).inspect_err(|_| queue.without_one()).ok();
            let others: Vec<_> = (1..threads).filter_map(start).collect();
            let (found, missed) = work();
            finding.found.add(found);
            finding.missed.extend(missed);
            for other in others {
                match other.join() {
                    Ok((found, missed)) => {
                        finding.found.add(found);
                        finding.missed.extend(missed);
                    }
                    // Half of a finding would be taken for all of it.
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
        });
    }

    /// As many as there are descriptors for: each holds one of a directory in every layer, and a few more.
    fn threads(&self) -> usize {
        let limit = getrlimit(Resource::Nofile).current.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
        let free = limit.saturating_sub(self.layers.len() + DESCRIPTORS_ELSEWHERE);
        (free / (self.layers.len() + DESCRIPTORS_OF_A_VISIT)).clamp(1, THREADS)
    }

    fn look(&self, visit: Visit, finding: &mut Finding) {
        let path = visit.path.clone();
        match self.visit(visit, finding) {
            Ok(()) | Err(Errno::NOENT) => {}
            // A directory of somebody else's may be a tree of its own, and one that this user may not list.
            Err(Errno::ACCESS) if path.as_os_str().is_empty() && self.has_nothing() => {}
            Err(errno) => finding.unreadable(&self.tree.path.join(path), errno),
        }
    }

    /// Whether no layer says anything about what is in the tree. What cannot be looked at does.
    fn has_nothing(&self) -> bool {
        let is_empty = |layer: &Layer| std::fs::read_dir(&layer.path).is_ok_and(|mut entries| entries.next().is_none());
        self.layers.iter().all(is_empty)
    }

    fn visit(&self, mut visit: Visit, finding: &mut Finding) -> Result<(), Errno> {
        let views = self.open(&mut visit, finding)?;
        let is_plain = matches!(views.lower, Lower::Plain);
        let directory = self.tree.path.join(&visit.path);
        let mut names = Names::default();
        let mut made_real = self.made_real(&directory, &views)?;
        for (position, part) in views.uppers.iter().enumerate() {
            let listed = match &views.listing {
                Listing::Unchanged(directories) => directories.clone(),
                // What else the older layers have was looked at when each of them was the head.
                Listing::Head if position > 0 => names.said.keys().chain(made_real.keys()).cloned().collect(),
                _ => list(&part.directory)?,
            };
            self.list_layer(part, listed, position, &directory, &mut names, finding);
        }
        // Where something else than reality shows through, both have to be listed.
        let (elsewhere, hidden_elsewhere) = match &views.lower {
            Lower::Elsewhere(path, directory) => (Some(directory), self.hidden.within(&self.tree.path.join(path))),
            _ => (None, &[][..]),
        };
        if let Some(copied) = &self.copied {
            self.list_copied(copied, &visit.path, &views, &mut names)?;
        } else if !is_plain && matches!(views.listing, Listing::All) {
            for directory in [elsewhere, views.before.as_ref()].into_iter().flatten() {
                // Reality's, or what shows through: that it went a moment ago is nothing the sandbox did.
                for name in list(directory).map_err(gone_meanwhile)? {
                    names.said.entry(name).or_insert(None);
                }
            }
        }
        made_real.retain(|name, _| !names.said.contains_key(name) && !names.unknown.contains(name));
        if views.uppers.first().is_some_and(|part| self.layers[part.layer].is_head) {
            finding.found.unmarked.extend(made_real.keys().map(|name| directory.join(name)));
        }
        names.said.extend(made_real.into_iter().map(|(name, gone)| (name, Some(gone))));
        let hidden = self.hidden.within(&directory);
        for (name, entry) in names.said {
            let is_unseen = match views.before.as_ref().map(|fd| said::is_hidden_in_reality(self.tree.marks, fd, &name)).transpose()
            {
                Ok(is_unseen) => is_unseen.unwrap_or(false),
                Err(errno) => {
                    finding.unreadable(&directory.join(&name), errno);
                    continue;
                }
            };
            let is_masked = visit.masked || is_unseen || hidden.contains(&name.as_os_str());
            let full = directory.join(&name);
            if names.unknown.contains(&name) || self.scope.trees.iter().any(|t| t.path.as_os_str() == full.as_os_str()) {
                continue;
            }
            let visible = |fd: Option<&OwnedFd>| -> Result<Option<Node>, Errno> {
                let Some(fd) = fd else { return Ok(None) };
                let Some(node) = Node::at(fd, &name).or_absent()? else { return Ok(None) };
                // Files of an overlay have devices of their own where its layers lie on several file systems.
                let is_here = node.dev == self.dev || node.kind != Kind::Directory && !is_mounted(fd, &name)?;
                Ok(is_here.then_some(node))
            };
            let shows_through = entry.is_none() && !is_masked && !hidden_elsewhere.contains(&name.as_os_str());
            let seen =
                visible(views.before.as_ref()).and_then(|real| Ok((real, if shows_through { visible(elsewhere)? } else { None })));
            let (real, through) = match seen {
                Ok(seen) => seen,
                Err(errno) => {
                    finding.unreadable(&full, errno);
                    continue;
                }
            };
            let known = if is_masked { None } else { real.clone() };
            // An apply took it out of the directory that shows through here, which is why it is not seen. (Where nothing shows
            // through, the sandbox deleted the directory, or made another, with all that was real in it.)
            let shows_elsewhere = matches!(views.lower, Lower::Elsewhere(..));
            let is_unsaid = entry.is_none() && through.is_none() && shows_elsewhere && self.copied.is_none();
            if is_unsaid && self.scope.bases.made(&full) >= Made::Real {
                continue;
            }
            let sub = self.below(&visit, &views, &name, entry.as_ref(), known.as_ref(), through.as_ref());
            // Where nothing of reality shows through, the sandbox decided about every name when it put the directory there. What
            // reality got since was never seen, however late the sandbox gave the same name to something.
            let touched = match &entry {
                None => visit.touched,
                Some(entry) if is_plain && !views.is_covered => entry.touched,
                Some(entry) => [entry.touched, visit.touched].into_iter().flatten().min(),
            };
            let after = match (entry.map(|e| e.said), &views.lower) {
                (Some(Said::Here { upper, node }), _) => {
                    let part = &views.uppers[upper];
                    Some(State::new(node, self.layers[part.layer].path.join(&part.path).join(&name), self.tree.marks))
                }
                (None, Lower::Elsewhere(lower, _)) => {
                    through.map(|node| State::new(node, self.tree.path.join(lower).join(&name), Format::None))
                }
                _ => None,
            };
            // A copy never had what cannot be copied.
            if after.is_none() && self.tree.copied && known.as_ref().is_some_and(|n| n.kind.is_special()) {
                continue;
            }
            let is_owned_as_copied =
                |node: &Node| self.copied.as_ref().is_some_and(|c| c.has_same_owner(&visit.path.join(&name), node));
            let mut after = after;
            if let Some(state) = after.as_mut().filter(|state| self.scope.as_root && !is_owned_as_copied(&state.node))
                && let Err(errno) =
                    belong_to(state, known.as_ref(), visit.owner, |made| self.is_made_inside(&views, &full, made, known.as_ref()))
            {
                finding.unreadable(&full, errno);
            }
            if real.is_none() && after.is_none() {
                finding.found.gone.push(full.clone());
            }
            // What the sandbox puts into a directory that it was not shown would be among files it does not know.
            let masked_over_something = visit.is_over_masked || is_masked && real.is_some() && after.is_some();
            if let (Lower::Elsewhere(..), Some(state)) = (&views.lower, after.as_ref().filter(|a| a.marks() == Format::None))
                && !masked_over_something
                && !self.scope.rewritten.contains(&full)
            {
                finding.found.through.push(Through { path: full.clone(), at: state.at.clone() });
            }
            match (sub, after) {
                // Compared when it is open.
                (Some(sub), Some(after)) if !sub.uppers.is_empty() && !masked_over_something => {
                    finding.pending.push(Visit { touched, masked: is_masked, itself: Some((known, after)), ..sub });
                }
                (sub, after) => {
                    let is_file = after.as_ref().is_some_and(|a| a.node.kind != Kind::Directory);
                    let is_changed = self.note(full, known, after, touched, masked_over_something, finding);
                    // Reality made a directory of what the sandbox has as it was: the sandbox deleted nothing in there.
                    if is_file && !is_changed {
                        continue;
                    }
                    let is_over_masked = masked_over_something;
                    finding.pending.extend(sub.map(|s| Visit { touched, masked: is_masked, is_over_masked, ..s }));
                }
            }
        }
        Ok(())
    }

    /// Whether an entry of a layer was made by the sandbox, rather than being reality's, copied up. A copy may be one of what an older
    /// layer has. The kernel marks a directory as copied up, too, when it finds that reality has one there by now; but that one is
    /// younger.
    fn is_made_inside(&self, views: &Views, full: &Path, state: &State, real: Option<&Node>) -> Result<bool, Errno> {
        let Some(name) = full.file_name() else { return Ok(false) };
        if let Some(copied) = &self.copied {
            let inside = self.layers.first().and_then(|copy| state.at.strip_prefix(&copy.path).ok());
            return Ok(!inside.is_some_and(|inside| copied.is_copy(inside, &state.node)));
        }
        if state.node.kind == Kind::Directory && self.scope.bases.was_made_inside(full) {
            return Ok(true);
        }
        // What shows through a directory that was renamed is reality's own.
        let marks = self.tree.marks;
        if state.marks() == Format::None {
            return Ok(false);
        }
        let real = real.filter(|real| real.kind == Kind::Directory).and_then(|real| real.btime);
        let was_first = |made: &Node| made.kind == Kind::Directory && made.btime.zip(real).is_some_and(|(made, real)| made < real);
        for part in &views.uppers {
            let Some(node) = Node::at(&part.directory, name).or_absent()? else { continue };
            if said::is_whiteout(marks, &part.directory, name, &node)? {
                break;
            }
            if was_first(&node) || !said::is_copied_up(marks, &self.layers[part.layer].path.join(&part.path).join(name), node.kind)?
            {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The visit of a directory on either side, unless nothing of it can differ.
    fn below(
        &self,
        visit: &Visit,
        views: &Views,
        name: &OsStr,
        entry: Option<&Entry>,
        before: Option<&Node>,
        through: Option<&Node>,
    ) -> Option<Visit> {
        let is_directory = |n: Option<&Node>| n.is_some_and(|n| n.kind == Kind::Directory);
        let has_before = is_directory(before);
        let path = visit.path.join(name);
        let upper = entry.and_then(Entry::directory);
        let lower = match (&views.lower, entry) {
            (Lower::Plain, Some(_)) if upper.is_some() => Some(path.clone()),
            (Lower::Elsewhere(lower, _), Some(_)) if upper.is_some() => Some(lower.join(name)),
            (Lower::Elsewhere(lower, _), None) if is_directory(through) => Some(lower.join(name)),
            _ => None,
        };
        let uppers: Vec<(usize, PathBuf)> = upper.map_or_else(Vec::new, |(position, _)| {
            views.uppers[position..].iter().map(|part| (part.layer, part.path.join(name))).collect()
        });
        if uppers.is_empty() && lower.is_none() && !has_before {
            return None;
        }
        Some(Visit {
            path,
            uppers,
            lower: lower.filter(|_| !self.tree.copied),
            has_before,
            touched: None,
            owner: before.map_or(visit.owner, owner),
            masked: false,
            is_over_masked: false,
            is_in_place: matches!(views.lower, Lower::Plain),
            is_put_by_head: views.is_put_by_head,
            itself: None,
        })
    }
}

fn owner(node: &Node) -> Option<(u32, u32)> {
    (node.uid != 0).then_some((node.uid, node.gid))
}
