//! Turns decisions into a transaction: parents before children, groups of links as groups, each path under its root.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use whatif_apply::{Approved, Attributes, Change as Act, Existing, Expected, Hash, Identity, Operation, Plan, Source};
use whatif_diff::content::LONGEST_TEXT;
use whatif_diff::{Change, ChangeKind, ChangeSet, Kind, Node, State};
use whatif_types::Sandbox;
use whatif_types::config::Times;
use whatif_types::text::Text;

use super::decide::{Decided, Decider};
use super::names::{Share, Shares, share};
use super::parents::{Parents, Standing};
use super::select::LeftOut;
use super::{BaseAfter, Settled, SettledState, Step, What, parents};
use crate::EngineError;
use crate::merge::{Conflict, Looks, NOT_SEEN, NewBase, Reason, Result3, Side};

pub(super) struct Scope<'a> {
    pub sandbox: &'a Sandbox,
    pub set: &'a ChangeSet,
    /// What the sandbox did not change, or not any more, and reality has otherwise.
    pub behind: &'a [Change],
    /// What of that is put back, with the directories it needs.
    pub put_back: &'a [Change],
    pub decider: &'a Decider,
    /// What was not chosen, and why.
    pub left_out: &'a [LeftOut],
    pub times: Times,
    /// Who applies.
    pub uid: u32,
}

/// A transaction and what there is to say about it.
pub(super) struct Planned {
    pub plan: Plan,
    pub steps: Vec<Step>,
    pub conflicts: Vec<Conflict>,
    pub left_out: Vec<LeftOut>,
    pub unchanged: Vec<PathBuf>,
    /// Those of them whose change reality made as well, and parts of files where it made just these.
    pub already: Vec<PathBuf>,
    /// All paths that are written.
    pub paths: Vec<PathBuf>,
    /// Paths where reality's version was chosen.
    pub settled: Vec<PathBuf>,
    pub bases: Vec<BaseAfter>,
}

pub(super) struct Planner<'a> {
    pub(super) scope: &'a Scope<'a>,
    pub(super) planned: Planned,
    pub(super) parents: Parents<'a>,
    /// What will be gone.
    removed: HashSet<PathBuf>,
    /// Where each path is in the plan.
    index: HashMap<PathBuf, usize>,
    /// What paths have to do with other names of their files.
    shares: Shares,
    links: Vec<ToLink>,
    not_chosen: HashSet<&'a Path>,
}

/// An operation that makes a further name.
struct ToLink {
    operation: usize,
    /// Where what it is a name of is put.
    first: PathBuf,
    /// If that is left out after all.
    otherwise: Source,
}

pub(super) fn plan<'a>(scope: &'a Scope<'a>, decided: Vec<Decided<'a>>) -> Result<Planned, EngineError> {
    let plan = Plan { roots: Vec::new(), operations: Vec::new(), about: serde_json::Value::Null };
    let planned = Planned {
        plan,
        steps: Vec::new(),
        conflicts: Vec::new(),
        left_out: Vec::new(),
        unchanged: Vec::new(),
        already: Vec::new(),
        paths: Vec::new(),
        settled: Vec::new(),
        bases: Vec::new(),
    };
    let shares = share(&decided, scope.uid)?;
    let (parents, removed) = (Parents::default(), removals(&decided)?);
    let not_chosen = scope.left_out.iter().map(|l| l.path.as_path()).collect();
    let (index, links) = (HashMap::new(), Vec::new());
    let mut planner = Planner { scope, planned, parents, removed, index, shares, links, not_chosen };
    let filled = parents::filled(scope.set);
    for one in decided {
        if let Some(one) = planner.postpone(one, &filled)? {
            planner.one(one)?;
        }
    }
    planner.end_postponed(&filled)?;
    planner.link();
    planner.planned.steps.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(planner.planned)
}

/// Whether something of reality goes that the plan puts nothing of its kind in the place of.
fn takes_away(decided: &Decided<'_>) -> bool {
    match &decided.result {
        Result3::Remove => true,
        Result3::Take { .. } => is_directory(decided) && decided.change.shown_kind() != Kind::Directory,
        _ => false,
    }
}

fn is_directory(decided: &Decided<'_>) -> bool {
    decided.now.as_ref().is_some_and(|n| n.node.kind == Kind::Directory)
}

/// What will be gone. Something that stays keeps the directory it is in, and that one the directories above it.
fn removals(decided: &[Decided<'_>]) -> Result<HashSet<PathBuf>, EngineError> {
    let going = || decided.iter().filter(|d| takes_away(d));
    let mut removed: HashSet<PathBuf> = going().map(|d| d.change.path.clone()).collect();
    let mut directories: Vec<&Path> = going().filter(|d| is_directory(d)).map(|d| d.change.path.as_path()).collect();
    directories.sort_by_key(|path| Reverse(path.components().count()));
    for directory in directories {
        if holds_others(directory, &removed)? {
            removed.remove(directory);
        }
    }
    Ok(removed)
}

impl<'a> Planner<'a> {
    pub(super) fn one(&mut self, decided: Decided<'a>) -> Result<(), EngineError> {
        let path = &decided.change.path;
        match decided.result {
            Result3::Conflict(ref conflict) => {
                let why = if self.stands_over_unseen(&decided)? { NOT_SEEN } else { conflict.why };
                self.planned.conflicts.push(Conflict { why, ..conflict.clone() });
            }
            Result3::LeaveOut(reason) => self.leave_out(path, reason),
            Result3::KeepReality => self.keep_reality(decided.change)?,
            Result3::Nothing => self.planned.unchanged.push(path.clone()),
            Result3::Already { base } => {
                self.base_as_it_is(decided.change, base);
                self.planned.already.push(path.clone());
                if !decided.is_part {
                    self.planned.unchanged.push(path.clone());
                }
            }
            _ => match self.above(path)? {
                Standing::Stands => self.write(decided)?,
                Standing::LeftOut(Reason::KeptReality) => self.keep_reality(decided.change)?,
                Standing::LeftOut(reason) => self.leave_out(path, reason),
                Standing::Conflict => {}
            },
        }
        Ok(())
    }

    /// Whether the sandbox's version would take the place of a directory with something in it that no deletion speaks of.
    fn stands_over_unseen(&self, decided: &Decided<'_>) -> Result<bool, EngineError> {
        let path = &decided.change.path;
        if !is_directory(decided) || decided.change.after.as_ref().is_none_or(|a| a.node.kind == Kind::Directory) {
            return Ok(false);
        }
        let deleted = self.scope.set.changes.iter().flat_map(|c| [Some(c), c.deletion.as_deref()]).flatten();
        let deleted = deleted.filter(|c| c.after.is_none() && c.path.parent() == Some(path)).map(|c| c.path.clone()).collect();
        holds_others(path, &deleted)
    }

    /// What the sandbox has here is its base from now on, so nothing is left of the change. Nor of the deletion at the old name of a
    /// rename, if that was not chosen: made real later, it would leave the content to the sandbox alone.
    pub(super) fn keep_reality(&mut self, change: &Change) -> Result<(), EngineError> {
        if let Some(deletion) = change.deletion.as_deref().filter(|d| self.not_chosen.contains(d.path.as_path())) {
            self.settle(deletion)?;
        }
        self.settle(change)
    }

    fn settle(&mut self, change: &Change) -> Result<(), EngineError> {
        let left = match &change.after {
            Some(after) => {
                let bytes = text_of(after, &change.path)?.map(|bytes| Text::from(&OsString::from_vec(bytes)));
                Some(SettledState { node: after.node.clone(), looks: Looks::of(after)?, bytes })
            }
            None => None,
        };
        self.planned.bases.push(BaseAfter::Settled(Settled { path: change.path.clone(), left }));
        self.planned.settled.push(change.path.clone());
        let is_object = self.scope.decider.keeps_object(&change.path);
        self.leave_out(&change.path, if is_object { Reason::GitObject } else { Reason::KeptReality });
        Ok(())
    }

    /// Everything above it is there.
    pub(super) fn write(&mut self, decided: Decided<'_>) -> Result<(), EngineError> {
        let Decided { change, now, result, is_part } = decided;
        let path = &change.path;
        let share = self.shares.remove(path);
        let is_first = matches!(share, Some(Share::First));
        let act = match result {
            Result3::Conflict(_) | Result3::LeaveOut(_) | Result3::KeepReality | Result3::Nothing | Result3::Already { .. } => {
                return Ok(());
            }
            Result3::Remove => {
                if !self.removed.contains(path) {
                    self.leave_out(path, Reason::NotEmpty);
                    return Ok(());
                }
                self.step(change, What::Delete);
                Act::Remove
            }
            Result3::Looks { looks, base } => {
                let Some(now) = &now else { return Ok(()) };
                self.step(change, What::Attributes);
                self.base(change, base);
                self.set_looks(now, &looks, is_first)?
            }
            Result3::Bytes { bytes, looks, base } => {
                self.step(change, if is_part { What::Part } else { What::Merge });
                self.base(change, base);
                let source = match share {
                    Some(Share::Of { path: first, .. }) => self.become_a_name(change, first, Source::Bytes(bytes)),
                    _ => Source::Bytes(bytes),
                };
                Act::Put { source, attributes: self.attributes(&looks, None) }
            }
            Result3::Take { looks, base } => {
                let Some(after) = &change.after else { return Ok(()) };
                if now.as_ref().is_some_and(|n| n.node.kind == Kind::Directory)
                    && after.node.kind != Kind::Directory
                    && !self.removed.contains(path)
                {
                    if self.scope.decider.keeps_reality(path) {
                        return self.keep_reality(change);
                    }
                    if self.scope.decider.holds_within(path) {
                        self.leave_out(path, Reason::Moved);
                        return Ok(());
                    }
                    let conflict = Conflict {
                        path: path.clone(),
                        why: NOT_SEEN,
                        reality: Side::Changed,
                        sandbox: Side::Changed,
                        regions: Vec::new(),
                        renamed: None,
                    };
                    self.planned.conflicts.push(conflict);
                    return Ok(());
                }
                match share {
                    Some(Share::Existing { now: existing, is_same }) => {
                        self.share_base(change, after, base, is_same)?;
                        self.take_name_of_existing(change, now.as_ref(), &existing)?
                    }
                    Some(Share::Of { path: first, is_same }) => {
                        self.share_base(change, after, base, is_same)?;
                        self.step(change, if now.is_some() { What::Replace } else { What::Add });
                        let source = self.become_a_name(change, first, approved(after));
                        Act::Put { source, attributes: self.attributes(&looks, Some(&after.node)) }
                    }
                    Some(Share::First) | None => {
                        if let Some(base) = base {
                            self.base(change, base);
                        }
                        self.take(change, now.as_ref(), after, &looks, is_first)?
                    }
                }
            }
        };
        self.operation(path, now.as_ref(), act);
        Ok(())
    }

    /// The path becomes what it is in the sandbox.
    /// `is_first`: others become further names of it.
    fn take(
        &mut self,
        change: &Change,
        now: Option<&State>,
        after: &State,
        looks: &Looks,
        is_first: bool,
    ) -> Result<Act, EngineError> {
        let is_only_attributes = matches!(change.kind, ChangeKind::Mode | ChangeKind::Owner | ChangeKind::Xattr);
        self.step(
            change,
            if is_only_attributes {
                What::Attributes
            } else if now.is_some() {
                What::Replace
            } else {
                What::Add
            },
        );
        let attributes = self.attributes(looks, Some(&after.node));
        Ok(match (after.node.kind, now) {
            (Kind::Directory, Some(now)) if now.node.kind == Kind::Directory => self.set_looks(now, looks, is_first)?,
            (Kind::Directory, _) => Act::Put { source: Source::Directory, attributes },
            (Kind::Link, _) => Act::Put { source: Source::Link(after.target()?.into_os_string()), attributes },
            (_, Some(now)) if is_only_attributes && !is_first && is_set_in_place(now, looks)? => {
                self.set_looks(now, looks, is_first)?
            }
            _ => Act::Put { source: approved(after), attributes },
        })
    }

    /// The path becomes a further name of a file that reality has.
    fn take_name_of_existing(&mut self, change: &Change, now: Option<&State>, existing: &State) -> Result<Act, EngineError> {
        self.step(change, if now.is_some() { What::Replace } else { What::Add });
        self.tell_link(change, Some(existing.at.clone()));
        let attributes = self.attributes(&Looks::of(existing)?, Some(&existing.node));
        let (root, path) = self.rooted(&existing.at);
        let identity = identity(&existing.node);
        Ok(Act::Put { source: Source::Existing(Box::new(Existing { root, path, identity })), attributes })
    }

    /// The operation that comes next becomes a further name of what is put at another path, as soon as that has its number.
    fn become_a_name(&mut self, change: &Change, first: PathBuf, otherwise: Source) -> Source {
        self.tell_link(change, Some(first.clone()));
        let operation = self.planned.plan.operations.len();
        self.links.push(ToLink { operation, first, otherwise: otherwise.clone() });
        otherwise
    }

    fn tell_link(&mut self, change: &Change, to: Option<PathBuf>) {
        if let Some(step) = self.planned.steps.iter_mut().rfind(|s| s.path == change.path) {
            step.link_to = to;
        }
    }

    /// Of a name whose file gets something else than the sandbox has, the sandbox starts from what it has.
    fn share_base(&mut self, change: &Change, after: &State, base: Option<NewBase>, is_same: bool) -> Result<(), EngineError> {
        let base = match base {
            None if !is_same => Some(NewBase { bytes: text_of(after, &change.path)?, looks: Looks::of(after)?, reconciled: true }),
            base => base,
        };
        if let Some(base) = base {
            self.base(change, base);
        }
        Ok(())
    }

    /// When all operations have their numbers. What is not put after all is not linked to.
    fn link(&mut self) {
        for ToLink { operation, first, otherwise } in std::mem::take(&mut self.links) {
            let target = self.index.get(&first).copied();
            let plan = &mut self.planned.plan;
            let is_put = |n: &usize| matches!(plan.operations.get(*n).map(|o| &o.change), Some(Act::Put { .. }));
            let new = target.filter(is_put).map_or(otherwise, Source::HardLink);
            let is_linked = matches!(new, Source::HardLink(_));
            let Some(linking) = plan.operations.get_mut(operation) else { continue };
            if let Act::Put { source, .. } = &mut linking.change {
                *source = new;
            }
            if !is_linked {
                for step in self.planned.steps.iter_mut().filter(|s| s.link_to.as_ref() == Some(&first)) {
                    step.link_to = None;
                }
            }
        }
    }

    /// Reality's content with other attributes.
    fn set_looks(&self, now: &State, looks: &Looks, is_first: bool) -> Result<Act, EngineError> {
        Ok(match now.node.kind {
            Kind::Directory => {
                let xattrs_now = Some(now.attributes()?.clone().into_iter().collect());
                Act::Set { attributes: Attributes { mtime: None, xattrs_now, ..self.attributes(looks, None) } }
            }
            Kind::Link => {
                let source = Source::Link(now.target()?.into_os_string());
                Act::Put { source, attributes: self.attributes(looks, Some(&now.node)) }
            }
            // The content is reality's own; so is its time.
            _ if !is_first && is_set_in_place(now, looks)? => Act::Set { attributes: self.attributes(looks, None) },
            _ => {
                let attributes = Attributes { mtime: Some(now.node.mtime), ..self.attributes(looks, None) };
                Act::Put { source: Source::File(now.at.clone()), attributes }
            }
        })
    }

    fn operation(&mut self, path: &Path, now: Option<&State>, change: Act) {
        if self.index.contains_key(path) {
            return;
        }
        let (root, relative) = self.rooted(path);
        let expected = now.map_or(Expected::Absent, |n| Expected::Present(identity(&n.node)));
        self.index.insert(path.to_owned(), self.planned.plan.operations.len());
        self.planned.paths.push(path.to_owned());
        self.planned.plan.operations.push(Operation { root, path: relative, expected, change });
    }

    /// The number of the root that a path lies in, and the path beneath it.
    fn rooted(&mut self, path: &Path) -> (usize, PathBuf) {
        let root = root_of(path, self.scope.sandbox);
        let number = match self.planned.plan.roots.iter().position(|r| r == root) {
            Some(number) => number,
            None => {
                self.planned.plan.roots.push(root.to_owned());
                self.planned.plan.roots.len() - 1
            }
        };
        (number, path.strip_prefix(root).unwrap_or(path).to_owned())
    }

    /// `timed`: whose time it takes along; without one, its time is that of the apply.
    fn attributes(&self, looks: &Looks, timed: Option<&Node>) -> Attributes {
        let keeps_time = self.scope.times == Times::Sandbox;
        Attributes {
            mode: looks.mode,
            uid: looks.uid,
            gid: looks.gid,
            mtime: timed.filter(|_| keeps_time).map(|n| n.mtime),
            xattrs: looks.xattrs().into_iter().collect(),
            xattrs_now: None,
            unmanaged: None,
        }
    }

    /// Where nothing is written: reality may move on before this is noted, and is known as it was looked at.
    fn base_as_it_is(&mut self, change: &Change, base: NewBase) {
        self.base(change, base);
        if let Some(BaseAfter::Content { there, .. }) = self.planned.bases.last_mut() {
            there.clone_from(&change.reality);
        }
    }

    fn base(&mut self, change: &Change, base: NewBase) {
        let path = Text::from(&change.path);
        let NewBase { bytes, looks, reconciled } = base;
        self.planned.bases.push(match bytes {
            Some(bytes) => {
                let bytes = Text::from(&OsString::from_vec(bytes));
                BaseAfter::Content { path, bytes, reconciled, looks: Some(looks), there: None }
            }
            None => {
                let equal_to = change.after.as_ref().map(|a| (a.node.ino, a.node.ctime));
                BaseAfter::Looks { path, looks, reconciled, equal_to }
            }
        });
    }

    fn step(&mut self, change: &Change, what: What) {
        if !self.index.contains_key(&change.path) {
            let leaves_names_behind = change.leaves_names_behind && what != What::Delete;
            let (path, link_to, was_rejected) = (change.path.clone(), None, false);
            self.planned.steps.push(Step { path, what, link_to, leaves_names_behind, was_rejected });
        }
    }

    pub(super) fn leave_out(&mut self, path: &Path, reason: Reason) {
        let moved_to = self.scope.decider.moved_to(path).filter(|_| reason == Reason::Moved).map(Path::to_owned);
        self.planned.left_out.push(LeftOut { moved_to, ..LeftOut::new(path, reason) });
    }
}

/// One system call, so it happens or does not; everything else is made under another name and swapped in. Several names of one file
/// would change together.
fn is_set_in_place(now: &State, looks: &Looks) -> Result<bool, EngineError> {
    Ok(now.node.kind == Kind::File && now.node.nlink == 1 && Looks::of(now)?.differs_in_mode_only(looks))
}

/// What the sandbox has, if it is a file that is not too long to be kept.
fn text_of(after: &State, path: &Path) -> Result<Option<Vec<u8>>, EngineError> {
    if after.node.kind != Kind::File || after.node.size > LONGEST_TEXT {
        return Ok(None);
    }
    after.bytes().map(|bytes| Some(bytes.into_owned())).map_err(|e| EngineError::io("read", path, e))
}

/// Whether reality has something in a directory that stays.
fn holds_others(path: &Path, removed: &HashSet<PathBuf>) -> Result<bool, EngineError> {
    let failed = |error| EngineError::io("list", path, error);
    for entry in std::fs::read_dir(path).map_err(failed)? {
        if !removed.contains(&entry.map_err(failed)?.path()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The sandbox's file, which has to be what was looked at when it becomes real.
fn approved(after: &State) -> Source {
    let (path, hash) = (after.at.clone(), after.sealed().map(Hash));
    Source::Approved(Box::new(Approved { path, identity: identity(&after.node), hash }))
}

/// The directory that is held while a path is changed: the project, or the tree outside it. Nothing crosses from one file
/// system to another, so a mount within the project is a root of its own.
pub(crate) fn root_of<'a>(path: &Path, sandbox: &'a Sandbox) -> &'a Path {
    let tree = sandbox.details.trees.iter().filter(|t| path.starts_with(t)).max_by_key(|t| t.as_os_str().len());
    match tree {
        Some(tree) if tree.starts_with(&sandbox.project) => tree,
        _ if path.starts_with(&sandbox.project) => &sandbox.project,
        Some(tree) => tree,
        None => Path::new("/"),
    }
}

pub(crate) fn identity(node: &Node) -> Identity {
    Identity {
        kind: match node.kind {
            Kind::File => whatif_apply::Kind::File,
            Kind::Directory => whatif_apply::Kind::Directory,
            Kind::Link => whatif_apply::Kind::Link,
            _ => whatif_apply::Kind::Other,
        },
        dev: node.dev,
        ino: node.ino,
        size: node.size,
        mtime: node.mtime,
        ctime: node.ctime,
        mode: node.mode,
        uid: node.uid,
        gid: node.gid,
        nlink: u64::from(node.nlink),
    }
}
