//! Turns decisions into a transaction: parents before children, groups of links as groups, each path under its root.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use whatif_apply::{Attributes, Change as Act, Expected, Identity, Operation, Plan, Source};
use whatif_diff::content::{self, LONGEST_TEXT};
use whatif_diff::scan::reality;
use whatif_diff::{Change, ChangeKind, ChangeSet, Kind, Node, State};
use whatif_types::Sandbox;
use whatif_types::config::Times;
use whatif_types::text::Text;

use super::decide::{Conflict, Decided, NewBase, Result3, Side, Wanted};
use super::select::{LeftOut, Reason};
use super::{BaseAfter, Step, What};
use crate::EngineError;

pub(super) struct Scope<'a> {
    pub sandbox: &'a Sandbox,
    pub set: &'a ChangeSet,
    pub times: Times,
}

/// A transaction and what there is to say about it.
pub(super) struct Planned {
    pub plan: Plan,
    pub steps: Vec<Step>,
    pub conflicts: Vec<Conflict>,
    pub left_out: Vec<LeftOut>,
    pub unchanged: Vec<PathBuf>,
    /// All paths that are written.
    pub paths: Vec<PathBuf>,
    /// Paths where reality's version was chosen.
    pub settled: Vec<PathBuf>,
    pub bases: Vec<BaseAfter>,
}

struct Planner<'a> {
    scope: &'a Scope<'a>,
    planned: Planned,
    /// Where each path is in the plan.
    index: HashMap<PathBuf, usize>,
    /// Directories that are there.
    standing: HashSet<OsString>,
    /// The first operation for each file of the sandbox that has several names.
    linked: HashMap<(u64, u64), usize>,
}

pub(super) fn plan(scope: &Scope<'_>, decided: Vec<Decided<'_>>) -> Result<Planned, EngineError> {
    let plan = Plan { roots: Vec::new(), operations: Vec::new(), about: serde_json::Value::Null };
    let planned = Planned {
        plan,
        steps: Vec::new(),
        conflicts: Vec::new(),
        left_out: Vec::new(),
        unchanged: Vec::new(),
        paths: Vec::new(),
        settled: Vec::new(),
        bases: Vec::new(),
    };
    let mut planner = Planner { scope, planned, index: HashMap::new(), standing: HashSet::new(), linked: HashMap::new() };
    let removed = removals(&decided);
    for one in decided {
        planner.one(one, &removed)?;
    }
    planner.planned.steps.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(planner.planned)
}

/// What will be gone: paths whose removal makes room for that of their directory.
fn removals(decided: &[Decided<'_>]) -> HashSet<PathBuf> {
    let goes = |d: &&Decided<'_>| match &d.result {
        Result3::Remove => true,
        Result3::TakeAll => {
            d.now.as_ref().is_some_and(|n| n.node.kind == Kind::Directory) && d.change.shown_kind() != Kind::Directory
        }
        _ => false,
    };
    decided.iter().filter(goes).map(|d| d.change.path.clone()).collect()
}

impl Planner<'_> {
    fn one(&mut self, decided: Decided<'_>, removed: &HashSet<PathBuf>) -> Result<(), EngineError> {
        let Decided { change, now, result, is_part } = decided;
        let path = &change.path;
        let act = match result {
            Result3::Conflict(conflict) => {
                self.planned.conflicts.push(conflict);
                return Ok(());
            }
            Result3::Skip => {
                self.leave_out(path, Reason::Skipped);
                return Ok(());
            }
            Result3::KeepReality => {
                // What the sandbox has here is its base from now on, so nothing is left of the change.
                if let Some(after) = change.after.as_ref().filter(|a| a.node.kind == Kind::File && a.node.size <= LONGEST_TEXT) {
                    let bytes = content::read(&after.at).map_err(|e| EngineError::io("read", path, e))?;
                    self.base(path, NewBase { bytes, reconciled: true });
                }
                self.planned.settled.push(path.clone());
                self.leave_out(path, Reason::KeptReality);
                return Ok(());
            }
            Result3::Nothing => {
                self.planned.unchanged.push(path.clone());
                return Ok(());
            }
            Result3::Remove => {
                if is_kept_by_others(path, now.as_ref(), removed)? {
                    self.leave_out(path, Reason::NotEmpty);
                    return Ok(());
                }
                self.step(path, What::Delete);
                Act::Remove
            }
            Result3::Attributes(wanted) => {
                self.step(path, What::Attributes);
                let attributes = self.attributes(&wanted, now.as_ref().map(|n| &n.node));
                match &now {
                    // Several names of one file would change together.
                    Some(now) if now.node.kind == Kind::File && now.node.nlink > 1 => {
                        Act::Put { source: Source::File(now.at.clone()), attributes }
                    }
                    _ => Act::Set { attributes },
                }
            }
            Result3::Bytes { bytes, attributes, base } => {
                self.step(path, if is_part { What::Part } else { What::Merge });
                self.base(path, base);
                Act::Put { source: Source::Bytes(bytes), attributes: self.attributes(&attributes, None) }
            }
            Result3::TakeAll => {
                let Some(after) = &change.after else { return Ok(()) };
                if now.as_ref().is_some_and(|n| n.node.kind == Kind::Directory)
                    && after.node.kind != Kind::Directory
                    && is_kept_by_others(path, now.as_ref(), removed)?
                {
                    let conflict = Conflict {
                        path: path.clone(),
                        why: "the sandbox replaced the directory, and reality has something in it that the sandbox does not know",
                        reality: Side::Changed,
                        sandbox: Side::Changed,
                        regions: Vec::new(),
                    };
                    self.planned.conflicts.push(conflict);
                    return Ok(());
                }
                self.take(change, now.as_ref(), after)?
            }
        };
        if self.parents(path)? {
            self.operation(path, now.as_ref(), act);
        }
        Ok(())
    }

    /// The path becomes what it is in the sandbox.
    fn take(&mut self, change: &Change, now: Option<&State>, after: &State) -> Result<Act, EngineError> {
        let wanted = super::decide::wanted(after)?;
        let attributes = self.attributes(&wanted, Some(&after.node));
        let is_only_attributes = matches!(change.kind, ChangeKind::Mode | ChangeKind::Owner | ChangeKind::Xattr);
        self.step(
            &change.path,
            if is_only_attributes {
                What::Attributes
            } else if now.is_some() {
                What::Replace
            } else {
                What::Add
            },
        );
        Ok(match after.node.kind {
            Kind::Directory if now.is_some_and(|n| n.node.kind == Kind::Directory) => Act::Set { attributes },
            Kind::Directory => Act::Put { source: Source::Directory, attributes },
            Kind::Link => {
                let target = after.target()?.into_os_string();
                Act::Put { source: Source::Link(target), attributes }
            }
            _ => {
                // One system call, so it happens or does not; everything else is made beside and swapped in.
                if let Some(now) = now.filter(|n| is_only_attributes && n.node.nlink == 1)
                    && super::decide::wanted(now)? == (Wanted { mode: now.node.mode, ..wanted })
                {
                    // The content is reality's own; so is its time.
                    return Ok(Act::Set { attributes: Attributes { mtime: None, ..attributes } });
                }
                let source = match self.first_name(&after.node) {
                    Some(first) => Source::HardLink(first),
                    None => Source::File(after.at.clone()),
                };
                Act::Put { source, attributes }
            }
        })
    }

    /// The operation that puts the same file under another name, if there is one before this.
    fn first_name(&mut self, node: &Node) -> Option<usize> {
        if node.nlink < 2 {
            return None;
        }
        let next = self.planned.plan.operations.len();
        let first = *self.linked.entry((node.dev, node.ino)).or_insert(next);
        (first != next).then_some(first)
    }

    /// Sees to it that the directories above exist; false if that is impossible.
    fn parents(&mut self, path: &Path) -> Result<bool, EngineError> {
        let Some(parent) = path.parent() else { return Ok(true) };
        if self.index.contains_key(parent) || self.standing.contains(parent.as_os_str()) {
            return Ok(true);
        }
        let now = reality(parent)?;
        if now.as_ref().is_some_and(|n| n.node.kind == Kind::Directory) {
            self.standing.insert(parent.as_os_str().to_owned());
            return Ok(true);
        }
        let in_sandbox = self.scope.set.find(parent).and_then(|c| c.after.clone().map(|after| (c, after)));
        let Some((change, after)) = in_sandbox.filter(|(_, after)| after.node.kind == Kind::Directory) else {
            let conflict = Conflict {
                path: path.to_owned(),
                why: "its directory is gone in reality",
                reality: Side::Deleted,
                sandbox: Side::Changed,
                regions: Vec::new(),
            };
            self.planned.conflicts.push(conflict);
            return Ok(false);
        };
        let change = change.clone();
        if !self.parents(parent)? {
            return Ok(false);
        }
        let act = self.take(&change, now.as_ref(), &after)?;
        self.operation(parent, now.as_ref(), act);
        Ok(true)
    }

    fn operation(&mut self, path: &Path, now: Option<&State>, change: Act) {
        if self.index.contains_key(path) {
            return;
        }
        let root = root_of(path, self.scope.sandbox);
        let number = match self.planned.plan.roots.iter().position(|r| r == root) {
            Some(number) => number,
            None => {
                self.planned.plan.roots.push(root.to_owned());
                self.planned.plan.roots.len() - 1
            }
        };
        let relative = path.strip_prefix(root).unwrap_or(path).to_owned();
        let expected = now.map_or(Expected::Absent, |n| Expected::Present(identity(&n.node)));
        self.index.insert(path.to_owned(), self.planned.plan.operations.len());
        self.planned.paths.push(path.to_owned());
        self.planned.plan.operations.push(Operation { root: number, path: relative, expected, change });
    }

    /// `timed`: whose time it takes along; without one, its time is that of the apply.
    fn attributes(&self, wanted: &Wanted, timed: Option<&Node>) -> Attributes {
        let keeps_time = self.scope.times == Times::Sandbox;
        Attributes {
            mode: wanted.mode,
            uid: wanted.owner.0,
            gid: wanted.owner.1,
            mtime: timed.filter(|_| keeps_time).map(|n| n.mtime),
            xattrs: wanted.xattrs.clone().into_iter().collect(),
            xattrs_now: None,
        }
    }

    fn base(&mut self, path: &Path, base: NewBase) {
        let bytes = Text::from(&OsString::from_vec(base.bytes));
        self.planned.bases.push(BaseAfter::Content { path: Text::from(path), bytes, reconciled: base.reconciled });
    }

    fn step(&mut self, path: &Path, what: What) {
        if !self.index.contains_key(path) {
            self.planned.steps.push(Step { path: path.to_owned(), what });
        }
    }

    fn leave_out(&mut self, path: &Path, reason: Reason) {
        self.planned.left_out.push(LeftOut { path: path.to_owned(), reason });
    }
}

/// Whether reality has something in a directory that stays.
fn is_kept_by_others(path: &Path, now: Option<&State>, removed: &HashSet<PathBuf>) -> Result<bool, EngineError> {
    if now.is_none_or(|n| n.node.kind != Kind::Directory) {
        return Ok(false);
    }
    let failed = |error| EngineError::io("list", path, error);
    for entry in std::fs::read_dir(path).map_err(failed)? {
        if !removed.contains(&entry.map_err(failed)?.path()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The directory that is held while a path is changed: the project, or the tree outside it. Nothing crosses from one file
/// system to another, so a mount within the project is a root of its own.
fn root_of<'a>(path: &Path, sandbox: &'a Sandbox) -> &'a Path {
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
