//! What a finished apply did, and the plan that takes it back.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use serde_json::Value;
use whatif_sys::absence::{self, OrAbsent};

use crate::attributes::{self, Xattrs};
use crate::backup::{Store, names_in};
use crate::error::{ApplyError, on};
use crate::fingerprint::{self, Hash};
use crate::further_name::existing_of;
use crate::held::{Held, in_the_way};
use crate::journal::{Done, Journal, Told};
use crate::layout::{Layout, Role, Spot, Step, link_base, spot};
use crate::look::look_at;
use crate::plan::{Attributes, Change, Existing, Expected, FurtherName, Identity, Kind, Operation, Plan, Source};
use crate::swap::look_here;
use crate::unmanaged::Unmanaged;

/// How an apply stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It needs [`recover`](crate::recover).
    Pending,
    Done,
    RolledBack,
}

/// What a journal says about an apply.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    pub about: Value,
    pub roots: Vec<PathBuf>,
    pub operations: Vec<RecordedOperation>,
    pub state: State,
    /// Paths that others changed meanwhile, and what was done about them.
    pub reported: Vec<(PathBuf, String)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct RecordedOperation {
    /// Without the bytes of [`Source::Bytes`].
    pub operation: Operation,
    /// Extended attributes, before, of a directory or of what was changed in place; others have them in their backup.
    pub before_xattrs: Option<Xattrs>,
    /// What was there when it was done; `None` if nothing, or if it is not done.
    pub after: Option<Identity>,
    /// What the content of that can be recognized by, where it was read.
    pub hash: Option<Hash>,
    /// The earlier version, if there was one that is kept.
    pub backup: Option<PathBuf>,
    /// Recovery left this one as it was, since somebody else had changed it.
    pub left: bool,
}

/// Something that is not any more as an apply left it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    pub path: PathBuf,
    /// Follows the path.
    pub why: String,
}

/// Reads what an apply did. Changes nothing.
pub fn read(directory: &Path) -> Result<Record, ApplyError> {
    let told = Journal::read(directory)?;
    let state = match (&told.done, &told.rolled_back) {
        (Some(_), _) => State::Done,
        (None, Some(_)) => State::RolledBack,
        (None, None) => State::Pending,
    };
    let Told { header, done, rolled_back, .. } = told;
    let reported = done.as_ref().map(|d| d.reported.clone()).or(rolled_back).unwrap_or_default();
    let (left, mut after, hashes) = done.map(|d| (d.left, d.after, d.hashes)).unwrap_or_default();
    let mut xattrs = header.xattrs;
    let mut operations = Vec::new();
    for (n, operation) in header.plan.operations.into_iter().enumerate() {
        let backup = directory.join("old").join(n.to_string());
        let backup = absence::exists(&backup).map_err(on("examine", &backup))?.then_some(backup);
        let after = after.get_mut(n).and_then(Option::take);
        let hash = hashes.get(&n).copied();
        let before_xattrs = xattrs.remove(&n);
        operations.push(RecordedOperation { operation, before_xattrs, after, hash, backup, left: left.contains(&n) });
    }
    Ok(Record { about: header.plan.about, roots: header.plan.roots, operations, state, reported })
}

/// How a finished apply can be taken back.
#[derive(Clone, Debug)]
pub struct UndoPlan {
    /// Not to be trusted if something changed.
    pub plan: Plan,
    /// Everything that changed since.
    pub changed: Vec<Changed>,
    /// Directories that the apply made and others put something into: they stay for that.
    pub in_use: Vec<Changed>,
    /// Of the changed paths, the files that begin with all that the apply left there: something was written at their end.
    pub grown: HashSet<PathBuf>,
}

/// What an undo is to take back of an apply.
#[derive(Clone, Copy)]
pub struct Part<'a> {
    /// What stays as it is, with everything in it.
    pub stays: &'a dyn Fn(&Path) -> bool,
    /// What an earlier undo took back. It says nothing about what is in it.
    pub is_undone: &'a dyn Fn(&Path) -> bool,
    /// A file with other bytes than the apply left is none that was changed if it means the same.
    pub means_the_same: &'a dyn Fn(&Path) -> bool,
}

impl fmt::Debug for Part<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Part").finish_non_exhaustive()
    }
}

pub fn undo_plan(directory: &Path) -> Result<UndoPlan, ApplyError> {
    undo_plan_of(directory, Part { stays: &|_| false, is_undone: &|_| false, means_the_same: &|_| false })
}

/// The same for a part of it. A directory that has to go stays for as long as something in it stays.
pub fn undo_plan_of(directory: &Path, part: Part<'_>) -> Result<UndoPlan, ApplyError> {
    let Part { stays, is_undone, means_the_same } = part;
    let told = Journal::read(directory)?;
    let unusable = |why: String| ApplyError::Journal { directory: directory.to_owned(), why };
    let Some(done) = told.done else { return Err(unusable("it is not of a finished apply".to_owned())) };
    let header = told.header;
    let layout = Layout::of(&header.plan, &header.id).map_err(|p| unusable(ApplyError::Problems(p).to_string()))?;
    let held = Held::open(&header.plan.roots).map_err(|mut faults| match faults.pop() {
        Some(fault) => fault.into(),
        None => unusable("its roots cannot be opened".to_owned()),
    })?;
    let was_directory = |n: &usize| header.plan.operations[*n].before_kind() == Some(Kind::Directory);
    let gone = layout.remove.iter().chain(&layout.publish_over_directories).filter(|n| !done.left.contains(n) && was_directory(n));
    let gone = gone.map(|n| &header.plan.operations[*n]).map(|o| (o.root, o.path.clone())).collect();
    let store = Store::open(directory)?;
    let mut undo =
        Undo { held, store, gone, operations: Vec::new(), changed: Vec::new(), in_use: Vec::new(), grown: HashSet::new() };
    let staying = staying(&header.plan, &layout, stays);
    for (n, (operation, step)) in header.plan.operations.iter().zip(&layout.steps).enumerate() {
        let top = if let Role::Nested { top } = step.role { top } else { n };
        if !done.left.contains(&top) && !staying.contains(step.path.as_path()) && !is_undone(&step.path) {
            let has_same_meaning = || means_the_same(&step.path);
            let after = done.after[n].as_ref().map(|identity| After {
                identity,
                hash: done.hashes.get(&n),
                means_the_same: &has_same_meaning,
                given: left_behind(&header.plan, n),
                further_name_of: existing_of(&header.plan, n),
            });
            undo.operation(n, operation, step, after.as_ref(), header.xattrs.get(&n), header.unmanaged.get(&n))?;
        }
    }
    undo.filled(&header.plan.roots);
    undo.times(&header.plan, &header.parents, &done)?;
    undo.changed.sort_by(|a, b| a.path.cmp(&b.path));
    undo.in_use.sort_by(|a, b| a.path.cmp(&b.path));
    let plan = Plan { roots: header.plan.roots, operations: undo.operations, about: header.plan.about };
    Ok(UndoPlan { plan, changed: undo.changed, in_use: undo.in_use, grown: undo.grown })
}

/// What an apply left at a path.
struct After<'a> {
    identity: &'a Identity,
    hash: Option<&'a Hash>,
    /// Whether other bytes mean what it left.
    means_the_same: &'a dyn Fn() -> bool,
    /// The attributes that it gave to it.
    given: Option<&'a Attributes>,
    /// The file that it gave a further name to.
    further_name_of: Option<&'a Existing>,
}

impl After<'_> {
    /// Why what is there now is not that; `None` if it is. Inode and times may be others, as after a `git stash` and its `pop`: the
    /// content tells. And they may be the same, as after a tool that writes in place and puts the time back. Where the content is not
    /// known, the time of change does not count: an attempt to undo that was put back has moved it too.
    fn changed(&self, now: &Identity, parent: &OwnedFd, spot: &Spot) -> io::Result<Option<&'static str>> {
        let is_untouched = self.identity.difference(now).is_none();
        let has_content = matches!(now.kind, Kind::File | Kind::Link);
        let known = match self.hash.filter(|_| !is_untouched && has_content && !spot.name.is_empty()) {
            Some(hash) if now.size == self.identity.size => Some(fingerprint::of(parent, &spot.name, now)?.as_ref() == Some(hash)),
            _ => None,
        };
        let is_another_file = !is_untouched && known != Some(true) && now.kind == Kind::File && !spot.name.is_empty();
        let known = if is_another_file && (self.means_the_same)() { Some(true) } else { known };
        // What is in a directory is looked at by itself.
        let is_directory = now.kind == Kind::Directory;
        let (ino, mtime, size) = (now.ino, now.mtime, now.size);
        let compared = match known {
            Some(true) => Identity { ino, mtime, size, ..self.identity.clone() },
            _ if is_directory => Identity { ino, ..self.identity.clone() },
            _ => self.identity.clone(),
        };
        let modified = (known == Some(false)).then_some("was modified");
        Ok(match compared.changed(now).or(modified) {
            Some(why) => Some(why),
            None => match self.given {
                Some(given) if has_other_xattrs(parent, spot, now, given)? => Some("has other extended attributes now"),
                _ => None,
            },
        })
    }
}

impl After<'_> {
    /// Whether all that was left there is there still, and more after it.
    fn has_grown(&self, now: &Identity, parent: &OwnedFd, spot: &Spot) -> io::Result<bool> {
        let is_longer = now.kind == Kind::File && self.identity.kind == Kind::File && now.size > self.identity.size;
        match self.hash.filter(|_| is_longer && !spot.name.is_empty()) {
            Some(hash) => fingerprint::begins_with(parent, &spot.name, self.identity.size, hash),
            None => Ok(false),
        }
    }
}

struct Undo {
    held: Held,
    store: Store,
    /// Directories that the apply removed or replaced, by root and path.
    gone: HashSet<(usize, PathBuf)>,
    operations: Vec<Operation>,
    changed: Vec<Changed>,
    in_use: Vec<Changed>,
    grown: HashSet<PathBuf>,
}

impl Undo {
    fn operation(
        &mut self,
        n: usize,
        operation: &Operation,
        step: &Step,
        after: Option<&After<'_>>,
        xattrs: Option<&Xattrs>,
        unmanaged: Option<&Unmanaged>,
    ) -> Result<(), ApplyError> {
        let mut changed = None;
        let (now, unreachable) = match self.held.directory(operation.root, &step.target.directory) {
            Ok(parent) => {
                let now = look_here(&parent, &step.target).map_err(on("examine", &step.path))?.map(|seen| seen.identity);
                if let (Some(after), Some(now)) = (after, &now) {
                    changed = after.changed(now, &parent, &step.target).map_err(on("examine", &step.path))?;
                    if changed.is_some() && after.has_grown(now, &parent, &step.target).map_err(on("examine", &step.path))? {
                        self.grown.insert(step.path.clone());
                    }
                }
                (now, None)
            }
            Err(error) => match in_the_way(&error) {
                Some(why) => (None, Some(why)),
                None => return Err(on("reach", &step.path)(error).into()),
            },
        };
        let stays_as = match (after.and_then(|a| a.further_name_of), &now) {
            (Some(existing), Some(now)) if existing.is_named(&mut self.held, now) => Some(existing.clone()),
            _ => None,
        };
        let why = match (after, &now) {
            // Whatever was done to the file since, it stays under its first name.
            (Some(_), Some(_)) if stays_as.is_some() => None,
            // Its directory went with the same apply, which is nothing to speak of, or with somebody else.
            (None, None) if self.went_along(operation) => None,
            (None, None) => unreachable,
            (None, Some(_)) => Some("exists again"),
            (Some(_), None) => Some("does not exist any more"),
            (Some(_), Some(_)) => changed,
        };
        if let Some(why) = why {
            self.changed.push(Changed { path: step.path.clone(), why: why.to_owned() });
        }
        let before = operation.before();
        let attributes = |identity: &Identity| identity.attributes(xattrs.cloned().unwrap_or_default());
        let change = match before {
            None => Change::Remove,
            Some(before) if step.role == Role::Set => {
                let untouched = after.zip(now.as_ref()).is_some_and(|(a, n)| a.identity.mtime == n.mtime);
                Change::Set { attributes: Attributes { mtime: untouched.then_some(before.mtime), ..attributes(before) } }
            }
            Some(before) if before.kind == Kind::Directory => {
                let attributes = Attributes { unmanaged: unmanaged.cloned(), ..attributes(before) };
                Change::Put { source: Source::Directory, attributes }
            }
            Some(before) => {
                let (original, is_kept) = (self.store.old(n), self.store.has_old(n)?);
                if let Some(source) = operation.stays_as().filter(|_| !is_kept).and_then(|e| self.as_existing(e, before)) {
                    let put = Change::Put { source, attributes: before.attributes(Vec::new()) };
                    self.operations.push(Operation {
                        root: operation.root,
                        path: operation.path.clone(),
                        expected: now.map_or(Expected::Absent, Expected::Present),
                        change: put,
                    });
                    return Ok(());
                }
                if !is_kept {
                    let why = "has no backup any more".to_owned();
                    self.changed.push(Changed { path: step.path.clone(), why });
                }
                // Not needed to bring it back, but to tell later whether it still has them.
                let kept = Attributes::of(&original).or_absent().map_err(on("examine", &original))?;
                let xattrs = kept.map(|kept| kept.xattrs).unwrap_or_default();
                Change::Put { source: Source::Original(original), attributes: before.attributes(xattrs) }
            }
        };
        let expected = match (now, stays_as) {
            (None, _) => Expected::Absent,
            (Some(identity), None) => Expected::Present(identity),
            (Some(identity), Some(of)) => Expected::FurtherName(Box::new(FurtherName { identity, of })),
        };
        if matches!((&change, &expected), (Change::Remove | Change::Set { .. }, Expected::Absent)) {
            return Ok(());
        }
        self.operations.push(Operation { root: operation.root, path: operation.path.clone(), expected, change });
        Ok(())
    }

    /// The file that a name was taken from, if it is still there.
    fn as_existing(&mut self, existing: &Existing, before: &Identity) -> Option<Source> {
        let first = existing.look(&mut self.held, &existing.path).ok().and_then(|(_, seen)| seen)?;
        let identity = first.identity;
        before.same_inode(&identity).then(|| Source::Existing(Box::new(Existing { identity, ..existing.clone() })))
    }

    /// The directory it was in went too; undoing brings that back first.
    fn went_along(&self, operation: &Operation) -> bool {
        let directory = operation.path.parent().map(Path::to_owned).unwrap_or_default();
        self.gone.contains(&(operation.root, directory))
    }

    /// Directories that have to go and hold something now that would not. Nothing comes in the place of some: these stay.
    fn filled(&mut self, roots: &[PathBuf]) {
        let mut going: HashSet<PathBuf> = self.operations.iter().filter(|o| is_taken(o)).map(|o| o.absolute(roots)).collect();
        let is_directory = |o: &&Operation| is_taken(o) && o.before_kind() == Some(Kind::Directory);
        let mut directories: Vec<(PathBuf, Spot, bool)> = self
            .operations
            .iter()
            .filter(is_directory)
            .map(|o| (o.absolute(roots), spot(o), matches!(o.change, Change::Remove)))
            .collect();
        // Inner first: what stays keeps what is above it.
        directories.sort_by(|(a, ..), (b, ..)| b.cmp(a));
        for (path, target, only_goes) in directories {
            // Whatever keeps it from being listed is found by the check of the undo.
            let Ok(parent) = self.held.directory(target.root, &target.directory) else { continue };
            let Ok(names) = names_in(&*parent, &target.name) else { continue };
            let staying: BTreeSet<_> = names.into_iter().filter(|name| !going.contains(&path.join(name))).collect();
            // What is not the same directory any more is named already.
            let Some(first) = staying.first().filter(|_| self.changed.iter().all(|c| c.path != path)) else { continue };
            let more = if staying.len() > 1 { format!(" and {} more", staying.len() - 1) } else { String::new() };
            let why = format!("holds '{}'{more}, put there since", first.to_string_lossy());
            if only_goes {
                going.remove(&path);
                self.in_use.push(Changed { path, why });
            } else {
                self.changed.push(Changed { path, why });
            }
        }
        let in_use: HashSet<&Path> = self.in_use.iter().map(|one| one.path.as_path()).collect();
        self.operations.retain(|o| !in_use.contains(o.absolute(roots).as_path()));
    }

    /// Directories in which names came and went get their times again, unless somebody else was at work in them.
    fn times(&mut self, plan: &Plan, parents: &[crate::journal::Parent], done: &Done) -> Result<(), ApplyError> {
        let euid = rustix::process::geteuid().as_raw();
        let operations: HashMap<(usize, PathBuf), usize> =
            self.operations.iter().enumerate().map(|(n, o)| ((o.root, o.path.clone()), n)).collect();
        for (parent, after) in parents.iter().zip(&done.parents) {
            // A directory that comes back has the time it had when it was looked at last.
            if let Some(n) = operations.get(&(parent.root, parent.path.clone()))
                && let Change::Put { source: Source::Directory, attributes } = &mut self.operations[*n].change
            {
                attributes.mtime = Some(parent.mtime);
                continue;
            }
            let path = plan.roots[parent.root].join(&parent.path);
            let found = self.held.find(parent.root, &parent.path).map_err(on("reach", &path))?;
            let Some(directory) = found else { continue };
            let now = look_at(&directory).map_err(on("examine", &path))?.identity;
            let untouched = now.ino == parent.ino && Some(now.mtime) == *after;
            match operations.get(&(parent.root, parent.path.clone())) {
                Some(n) => {
                    // The apply changed the directory too. Its time before is that of the journal: it was taken first.
                    if let Change::Set { attributes } = &mut self.operations[*n].change {
                        attributes.mtime = untouched.then_some(parent.mtime);
                    }
                }
                // Only its owner may set the times of a directory; what cannot be put back need not keep the rest from it.
                None if untouched && (now.uid == euid || euid == 0) => {
                    let xattrs = attributes::xattrs(&*directory).map_err(on("examine", &path))?;
                    let attributes = Attributes { mtime: Some(parent.mtime), ..now.attributes(xattrs) };
                    let (expected, change) = (Expected::Present(now), Change::Set { attributes });
                    self.operations.push(Operation { root: parent.root, path: parent.path.clone(), expected, change });
                }
                None => {}
            }
        }
        Ok(())
    }
}

/// The paths of a plan that an undo leaves alone.
fn staying<'a>(plan: &Plan, layout: &'a Layout, stays: &dyn Fn(&Path) -> bool) -> HashSet<&'a Path> {
    let paths: HashMap<&Path, &Operation> = layout.steps.iter().map(|s| s.path.as_path()).zip(&plan.operations).collect();
    let is_in_one = |path: &Path| path.ancestors().any(|above| paths.contains_key(above) && stays(above));
    let named: Vec<&Path> = paths.keys().copied().filter(|path| is_in_one(path)).collect();
    let is_to_go = |path: &&Path| paths.get(path).is_some_and(|o| o.before_kind() != Some(Kind::Directory));
    let above: Vec<&Path> = named.iter().flat_map(|path| path.ancestors().skip(1)).filter(is_to_go).collect();
    let above = above.into_iter().filter_map(|path| paths.get_key_value(path).map(|(path, _)| *path));
    named.iter().copied().chain(above.collect::<Vec<_>>()).collect()
}

/// What an operation gave to what it left: of a further name, what the first one got.
fn left_behind(plan: &Plan, n: usize) -> Option<&Attributes> {
    let first = match plan.operations[n].source() {
        Some(Source::HardLink(_)) => link_base(plan, n)?,
        _ => n,
    };
    plan.operations.get(first)?.attributes()
}

fn has_other_xattrs(parent: &OwnedFd, spot: &Spot, now: &Identity, left: &Attributes) -> io::Result<bool> {
    if !matches!(now.kind, Kind::File | Kind::Directory) {
        return Ok(false);
    }
    let held = if spot.name.is_empty() { None } else { Some(attributes::hold(parent, &spot.name)?) };
    let found = attributes::xattrs(held.as_ref().unwrap_or(parent))?;
    Ok(!attributes::same(&found, &left.xattrs))
}

/// What is there now does not stay.
fn is_taken(operation: &Operation) -> bool {
    matches!(operation.change, Change::Remove)
        || operation.source().is_some_and(|source| *source != Source::Directory) && operation.before().is_some()
}
