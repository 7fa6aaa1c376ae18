//! The walk through one tree.

use std::collections::{BTreeMap, HashSet};
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use whatif_sys::absence::OrAbsent;

use super::compare::belong_to;
use super::directory::{beneath, hold, list};
use super::hidden::Hidden;
use super::queue::Queue;
use super::stack::{Layer, LookUp, Part};
use super::{Found, Reach, Renamed, Scope, Tree};
use crate::base::Made;
use crate::change::{Base, Change, State};
use crate::copied::Copied;
use crate::marks::Marks;
use crate::node::{Kind, Node, Time};
use crate::unreadable::Unreadable;
use crate::watch::Directory;

/// One tree, opened.
pub(super) struct Walk<'a> {
    pub(super) scope: &'a Scope<'a>,
    pub(super) tree: &'a Tree,
    layers: Vec<Layer>,
    reality: Option<OwnedFd>,
    dev: u64,
    hidden: Hidden<'a>,
    /// What was copied, if the tree is a copy.
    pub(super) copied: Option<Copied>,
}

/// What one thread found, and what it found to be looked at.
#[derive(Default)]
pub(super) struct Finding {
    pub found: Found,
    /// Directories of a copy that the sandbox did not touch and reality has no more.
    pub missed: Vec<Change>,
    pending: Vec<Visit>,
}

impl Finding {
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
struct Visit {
    path: PathBuf,
    /// The layers that may have it, newest first, and where; the first one has it.
    uppers: Vec<(usize, PathBuf)>,
    /// What of reality shows through if it is a directory, unless a layer says otherwise.
    lower: Option<PathBuf>,
    /// Reality has a directory at `path`.
    has_before: bool,
    /// When the sandbox decided about what is here, if nothing of it is in a layer of its own.
    touched: Option<Time>,
    /// Whom new files belong to.
    owner: Option<(u32, u32)>,
    masked: bool,
    /// What shows through the directory above is reality at the same path.
    is_in_place: bool,
    /// The head made or moved this directory or one above it: what shows here is its doing, not that of an older layer.
    is_put_by_head: bool,
    /// The directory itself on both sides, still to be compared.
    itself: Option<(Option<Node>, State)>,
}

/// The views of one directory, opened.
struct Views {
    uppers: Vec<Part>,
    before: Option<OwnedFd>,
    lower: Lower,
    /// Nothing of reality shows through, even where nothing is hidden by that.
    is_covered: bool,
    listing: Listing,
    is_put_by_head: bool,
}

/// Which names of a directory to look at.
enum Listing {
    All,
    /// Those that the head has.
    Head,
    /// Nothing came or went since the last look: the directories in it, where something may have.
    Unchanged(Vec<OsString>),
}

/// What shows through the layers.
enum Lower {
    /// Reality's directory at the same path.
    Plain,
    /// Reality's directory at another path: it was renamed.
    Elsewhere(PathBuf, OwnedFd),
    Nothing,
}

/// What reality has at the place that a renamed directory came from.
enum Source {
    There(OwnedFd),
    Hidden,
    Missing,
}

/// The names in a directory.
#[derive(Default)]
struct Names {
    /// What the layers say about each; nothing about those that only reality has.
    said: BTreeMap<OsString, Option<Entry>>,
    /// Those of which some layer could not be asked.
    unknown: HashSet<OsString>,
}

/// One name in the layers: what the newest that knows it says, and when the oldest that knows it was told.
struct Entry {
    said: Said,
    touched: Option<Time>,
}

enum Said {
    Here { upper: usize, node: Node },
    Gone,
}

impl Entry {
    fn directory(&self) -> Option<(usize, &Node)> {
        match &self.said {
            Said::Here { upper, node } if node.kind == Kind::Directory => Some((*upper, node)),
            _ => None,
        }
    }
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
            finding.found.changes.extend(finding.missed.into_iter().filter(|d| needed.contains(&d.path)));
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
            let others: Vec<_> = (1..threads).map(|_| scope.spawn(work)).collect();
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
            Err(errno) => finding.unreadable(&self.tree.path.join(path), errno),
        }
    }

    fn visit(&self, mut visit: Visit, finding: &mut Finding) -> Result<(), Errno> {
        let views = self.open(&mut visit, finding)?;
        let is_plain = matches!(views.lower, Lower::Plain);
        let directory = self.tree.path.join(&visit.path);
        let mut names = Names::default();
        for (position, part) in views.uppers.iter().enumerate() {
            let listed = match &views.listing {
                Listing::Unchanged(directories) => directories.clone(),
                // What else the older layers have was looked at when each of them was the head.
                Listing::Head if position > 0 => names.said.keys().cloned().collect(),
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
                for name in list(directory).map_err(|errno| if errno == Errno::NOENT { Errno::STALE } else { errno })? {
                    names.said.entry(name).or_insert(None);
                }
            }
        }
        let hidden = self.hidden.within(&directory);
        for (name, entry) in names.said {
            let is_unseen = match views.before.as_ref().map(|fd| self.tree.marks.hides_from_reality(fd, &name)).transpose() {
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
                Ok(Node::at(fd, &name).or_absent()?.filter(|n| n.dev == self.dev))
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
            // An apply took it out of the directory that shows through here, which is why it is not seen.
            let is_unsaid = entry.is_none() && through.is_none() && !is_plain && self.copied.is_none();
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
                    through.map(|node| State::new(node, self.tree.path.join(lower).join(&name), Marks::None))
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
                && let Err(errno) = belong_to(state, known.as_ref(), visit.owner, |made| self.is_made_inside(made))
            {
                finding.unreadable(&full, errno);
            }
            if real.is_none() && after.is_none() {
                finding.found.gone.push(full.clone());
            }
            let masked_over_something = is_masked && real.is_some() && after.is_some();
            match (sub, after) {
                // Compared when it is open.
                (Some(sub), Some(after))
                    if (sub.has_before || known.is_none()) && !sub.uppers.is_empty() && !masked_over_something =>
                {
                    finding.pending.push(Visit { touched, masked: is_masked, itself: Some((known, after)), ..sub });
                }
                (sub, after) => {
                    self.note(full, known, after, touched, masked_over_something, finding);
                    finding.pending.extend(sub.map(|s| Visit { touched, masked: is_masked, ..s }));
                }
            }
        }
        Ok(())
    }

    /// Opens the views of a directory. What the layers say about it (opaque, renamed) is read from the directories themselves.
    fn open(&self, visit: &mut Visit, finding: &mut Finding) -> Result<Views, Errno> {
        let first = visit.uppers.first().map(|(layer, _)| *layer);
        let mut look_up = LookUp::new(&self.layers, self.tree.marks, std::mem::take(&mut visit.uppers), visit.lower.take());
        let mut uppers: Vec<Part> = Vec::new();
        let mut itself = visit.itself.take();
        let mut was_there = false;
        let mut hides_nothing = false;
        let mut is_copied_up = false;
        let mut redirected: Option<PathBuf> = None;
        let mut listing = Listing::All;
        let mut is_put_by_head = visit.is_put_by_head;
        while let Some((part, seen)) = look_up.next()? {
            // Only the oldest part was made over what is in reality; newer ones may have been made over older ones.
            is_copied_up = seen.is_copied_up;
            if look_up.is_redirected && redirected.is_none() {
                redirected = Some(self.layers[part.layer].path.join(&part.path));
            }
            was_there = visit.is_in_place && !look_up.is_redirected && seen.is_copied_up && !seen.is_opaque;
            let mut btime = None;
            if uppers.is_empty()
                && let Some((_, after)) = &mut itself
            {
                if self.layers[part.layer].is_head {
                    is_put_by_head |= seen.is_opaque || seen.redirect.is_some();
                    listing = self.listing(after, is_put_by_head);
                    finding.found.directories.push(Directory { path: after.at.clone(), ctime: after.node.ctime });
                }
                after.set_attributes(seen.attributes);
                btime = after.node.btime;
            }
            // A new directory hides nothing of reality. One that reality made later is not what it was to hide.
            if seen.is_opaque
                && !look_up.is_redirected
                && let Some((Some(before), _)) = &itself
            {
                let btime = match btime {
                    None => Node::at(&part.directory, ".")?.btime,
                    known => known,
                };
                hides_nothing = before.btime.zip(btime).is_some_and(|(b, made)| b > made);
            }
            uppers.push(part);
        }
        if uppers.first().map(|part| part.layer) != first {
            return Err(Errno::NOENT);
        }
        // Reality had a directory here a moment ago. Whatever has become of it, what the sandbox did here must not go unmentioned.
        let before = self.reality.as_ref().filter(|_| visit.has_before).map(|fd| beneath(fd, &visit.path));
        let before = before.transpose().map_err(|_| Errno::STALE)?;
        let full = if visit.path.as_os_str().is_empty() { self.tree.path.clone() } else { self.tree.path.join(&visit.path) };
        let in_place = if before.is_some() { Lower::Plain } else { Lower::Nothing };
        let mut lost = None;
        let is_covered = look_up.lower.is_none();
        let lower = match look_up.lower.or_else(|| hides_nothing.then(|| visit.path.clone())) {
            // Whether it is there is known.
            Some(path) if path.as_os_str() == visit.path.as_os_str() => in_place,
            Some(path) if before.is_some() && self.scope.bases.is_in_place(&full, &path).map_err(|u| u.cause)? => in_place,
            Some(path) => match self.source(&path)? {
                Source::There(directory) => {
                    finding.found.renamed.extend(redirected.map(|at| Renamed { path: full.clone(), source: path.clone(), at }));
                    Lower::Elsewhere(path, directory)
                }
                Source::Hidden => Lower::Nothing,
                // What cannot be seen was not deleted: whatever reality has here is none of the sandbox's doing.
                Source::Missing => {
                    let source = self.tree.path.join(path);
                    let was_real = is_copied_up && !self.scope.bases.was_absent(&source);
                    lost = Some(source).filter(|_| was_real && self.scope.bases.made(&full) == Made::Nothing);
                    in_place
                }
            },
            None => Lower::Nothing,
        };
        if let Some(source) = lost
            && let Some((node, after)) = itself.take()
        {
            self.note_lost(full.clone(), source, node, after, finding);
        }
        if let Some((node, after)) = itself {
            match (node, &before) {
                (Some(node), Some(fd)) => {
                    self.note_directory(full, node, after, Marks::None.look(fd)?.attributes, visit.touched, finding)
                }
                (node, _) => {
                    // An old mark may say so of a directory that the sandbox made, when layers were merged.
                    was_there &= !self.scope.bases.was_absent(&full);
                    self.note(full.clone(), node, Some(after), visit.touched, false, finding);
                    // It was in reality when the sandbox touched something in it, and went since.
                    if was_there && let Some(change) = finding.found.changes.last_mut().filter(|c| c.path == full) {
                        change.base = Base::Lost;
                    }
                }
            }
        }
        Ok(Views { uppers, before, lower, is_covered, listing, is_put_by_head })
    }

    /// Which names of a head's directory are to be looked at.
    fn listing(&self, head: &State, is_put_by_head: bool) -> Listing {
        let since = match self.scope.reach {
            Reach::Whole => return Listing::All,
            Reach::Heads => None,
            // A copy's files are written in place, which their directory does not show.
            Reach::News(since) => Some(since).filter(|_| self.copied.is_none()),
        };
        if let Some(directories) = since.and_then(|look| look.unchanged(&head.at, head.node.ctime)) {
            return Listing::Unchanged(directories.map(OsStr::to_owned).collect());
        }
        if is_put_by_head { Listing::All } else { Listing::Head }
    }

    /// Whether an entry of a layer was made by the sandbox, rather than being reality's, copied up.
    fn is_made_inside(&self, state: &State) -> Result<bool, Errno> {
        if let Some(copied) = &self.copied {
            let inside = self.layers.first().and_then(|copy| state.at.strip_prefix(&copy.path).ok());
            return Ok(!inside.is_some_and(|inside| copied.is_copy(inside, &state.node)));
        }
        Ok(!self.tree.marks.is_copied_up(&state.at, state.node.kind)?)
    }

    /// What of reality shows through at another path than its own.
    fn source(&self, path: &Path) -> Result<Source, Errno> {
        let Some(reality) = &self.reality else { return Ok(Source::Missing) };
        if self.hidden.covers(&self.tree.path, path) {
            return Ok(Source::Hidden);
        }
        match beneath(reality, path) {
            Ok(directory) => Ok(Source::There(directory)),
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => Ok(Source::Missing),
            Err(errno) => Err(errno),
        }
    }

    /// The names that a directory of a copied tree had, and what is in reality where all of it was taken away.
    fn list_copied(&self, copied: &Copied, path: &Path, views: &Views, names: &mut Names) -> Result<(), Errno> {
        for name in copied.within(path) {
            names.said.entry(name.to_owned()).or_insert(None);
        }
        let node = views.uppers.first().map(|part| Node::at(&part.directory, ".")).transpose()?;
        // Of a directory that the sandbox took away with the one above it, it has nothing, whether it was copied or came later.
        let is_taken_away = !copied.is_known || node.is_none() || copied.is_replaced(path, node.as_ref());
        if let Some(directory) = views.before.as_ref().filter(|_| is_taken_away) {
            for name in list(directory).map_err(|errno| if errno == Errno::NOENT { Errno::STALE } else { errno })? {
                names.said.entry(name).or_insert(None);
            }
        }
        Ok(())
    }

    /// What one layer's directory, part of the one at `full`, says about the names `listed` in it; what a newer layer says about a
    /// name stands.
    fn list_layer(
        &self,
        part: &Part,
        listed: Vec<OsString>,
        position: usize,
        full: &Path,
        names: &mut Names,
        finding: &mut Finding,
    ) {
        let marks = self.tree.marks;
        let directory = &part.directory;
        for name in listed {
            let about = |node: Node| -> Result<(bool, bool, Node), Errno> {
                let is_bookkeeping = marks.is_bookkeeping(directory, &name, &node)?;
                Ok((is_bookkeeping, marks.is_whiteout(directory, &name, &node)?, node))
            };
            let (is_bookkeeping, is_gone, node) = match Node::at(directory, &name).and_then(about).or_absent() {
                Ok(Some(looked)) => looked,
                Ok(None) => continue,
                Err(errno) => {
                    finding.unreadable(&full.join(&name), errno);
                    names.unknown.insert(name);
                    continue;
                }
            };
            if is_bookkeeping {
                continue;
            }
            let touched = node.btime;
            if let Some(Some(known)) = names.said.get_mut(&name) {
                known.touched = known.touched.min(touched);
                continue;
            }
            if is_gone {
                names.said.insert(name, Some(Entry { said: Said::Gone, touched }));
                continue;
            }
            if self.layers[part.layer].is_head && node.kind == Kind::File {
                finding.found.bytes += node.blocks * 512;
            }
            names.said.insert(name, Some(Entry { said: Said::Here { upper: position, node }, touched }));
        }
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
            is_in_place: matches!(views.lower, Lower::Plain),
            is_put_by_head: views.is_put_by_head,
            itself: None,
        })
    }
}

fn owner(node: &Node) -> Option<(u32, u32)> {
    (node.uid != 0).then_some((node.uid, node.gid))
}
