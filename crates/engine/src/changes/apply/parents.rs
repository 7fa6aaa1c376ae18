//! The directories that a wanted change needs above it.
//!
//! One that reality does not have is made as the sandbox has it, but only if it passes the same look at three sides as any other
//! change, whether it was chosen itself or not: reality may have a file there, or a link. A new directory is made when something in
//! it is, so that none is left empty by what was left out.

use std::collections::{HashMap, HashSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use whatif_diff::scan::reality;
use whatif_diff::{Change, ChangeSet, Kind};

use super::decide::Decided;
use super::plan::{Planner, root_of};
use super::select::{LeftOut, Options};
use crate::EngineError;
use crate::merge::{Conflict, Looks, Reason, Result3, Side};

/// What is known about a directory that something needs.
#[derive(Clone, Copy)]
pub(super) enum Standing {
    /// It is there, or an operation before makes it.
    Stands,
    /// What is in it is left out with it.
    LeftOut(Reason),
    /// That was said of the directory.
    Conflict,
}

/// Directories to be made when something needs them, and what is known about those that something needed.
#[derive(Default)]
pub(super) struct Parents<'a> {
    pending: HashMap<&'a Path, Decided<'a>>,
    known: HashMap<PathBuf, Standing>,
    made: HashSet<PathBuf>,
}

impl<'a> Planner<'a> {
    /// Keeps a directory that is to be made until something in it needs it. `filled`: directories in which the sandbox has changes.
    pub(super) fn postpone(&mut self, decided: Decided<'a>, filled: &HashSet<&OsStr>) -> Result<Option<Decided<'a>>, EngineError> {
        let is_directory = |kind: Option<Kind>| kind == Some(Kind::Directory);
        let is_new = is_directory(decided.change.after.as_ref().map(|s| s.node.kind))
            && !is_directory(decided.now.as_ref().map(|s| s.node.kind))
            && matches!(decided.result, Result3::Take { .. } | Result3::Nothing | Result3::KeepReality | Result3::LeaveOut(_));
        if !is_new {
            return Ok(Some(decided));
        }
        let path = &decided.change.path;
        let is_needed = match decided.result {
            Result3::Take { .. } => !filled.contains(path.as_os_str()),
            Result3::Nothing => is_in_doubt(decided.change, filled) && self.scope.decider.takes_sandboxs(path),
            _ => false,
        };
        self.parents.pending.insert(path, decided);
        if is_needed {
            self.stand(path)?;
        }
        Ok(None)
    }

    /// What became of the directories that nothing needed.
    pub(super) fn end_postponed(&mut self, filled: &HashSet<&OsStr>) -> Result<(), EngineError> {
        let mut pending: Vec<Decided<'a>> = std::mem::take(&mut self.parents.pending).into_values().collect();
        pending.sort_by(|a, b| a.change.path.cmp(&b.change.path));
        let reasons = if pending.is_empty() { HashMap::new() } else { self.reasons_within() };
        for decided in pending {
            match decided.result {
                Result3::Take { .. } => {
                    let path = &decided.change.path;
                    let (reason, needs) = reasons.get(path).copied().unwrap_or((Reason::NotChosen, Options::default()));
                    self.planned.left_out.push(LeftOut { needs, ..LeftOut::new(path, reason) });
                }
                Result3::Nothing if is_in_doubt(decided.change, filled) => self.settle_doubt(decided.change)?,
                _ => self.one(decided)?,
            }
        }
        Ok(())
    }

    /// What the sandbox changed of a directory itself is nowhere else.
    fn settle_doubt(&mut self, change: &Change) -> Result<(), EngineError> {
        if self.scope.decider.keeps_reality(&change.path) {
            return self.keep_reality(change);
        }
        let why = IN_DOUBT;
        let (path, reality, sandbox) = (change.path.clone(), Side::Deleted, Side::Changed);
        self.planned.conflicts.push(Conflict { path, why, reality, sandbox, regions: Vec::new(), renamed: None });
        Ok(())
    }

    /// Why something in each directory is left out.
    fn reasons_within(&self) -> HashMap<PathBuf, (Reason, Options)> {
        let mut reasons = HashMap::new();
        for LeftOut { path, reason, needs, .. } in self.scope.left_out.iter().chain(&self.planned.left_out) {
            for directory in path.ancestors().skip(1) {
                if reasons.contains_key(directory) {
                    break;
                }
                reasons.insert(directory.to_owned(), (*reason, *needs));
            }
        }
        reasons
    }

    /// Sees to it that the directories above a path are there.
    pub(super) fn above(&mut self, path: &Path) -> Result<Standing, EngineError> {
        match path.parent() {
            Some(parent) if path != root_of(path, self.scope.sandbox) => self.stand(parent),
            _ => Ok(Standing::Stands),
        }
    }

    fn stand(&mut self, path: &Path) -> Result<Standing, EngineError> {
        if let Some(known) = self.parents.known.get(path) {
            return Ok(*known);
        }
        let standing = match self.above(path)? {
            Standing::Stands => self.stand_in_its_place(path)?,
            other => other,
        };
        self.parents.known.insert(path.to_owned(), standing);
        Ok(standing)
    }

    /// Everything above it is a directory, or will be one.
    fn stand_in_its_place(&mut self, path: &Path) -> Result<Standing, EngineError> {
        // What reality has in the place of a directory that is made may be a link, with something at its end.
        let is_in_new = path.parent().is_some_and(|parent| self.parents.made.contains(parent));
        let now = if is_in_new { None } else { reality(path)? };
        if now.as_ref().is_some_and(|n| n.node.kind == Kind::Directory) {
            return Ok(Standing::Stands);
        }
        // Where reality's version was chosen once, the sandbox's directory is not a change any more.
        let settled = || self.scope.behind.iter().chain(self.scope.put_back).find(|c| c.path == path);
        let in_sandbox =
            self.scope.set.find(path).or_else(settled).filter(|c| c.after.as_ref().is_some_and(|a| a.node.kind == Kind::Directory));
        let Some(change) = in_sandbox else {
            let why = if now.is_some() {
                "reality has something else in the place of this directory"
            } else {
                "reality has no such directory any more"
            };
            let reality = if now.is_some() { Side::Changed } else { Side::Deleted };
            let conflict =
                Conflict { path: path.to_owned(), why, reality, sandbox: Side::Changed, regions: Vec::new(), renamed: None };
            self.planned.conflicts.push(conflict);
            return Ok(Standing::Conflict);
        };
        let decided = match self.parents.pending.remove(path) {
            Some(decided) => decided,
            None => {
                // It would take the place of something that was not approved to go. A new one comes along with what is in it.
                if now.is_some()
                    && let Some(reason) = self.reason_to_stay(path)
                {
                    return Ok(Standing::LeftOut(reason));
                }
                self.scope.decider.one(change, None)?
            }
        };
        self.make(decided)
    }

    /// Why a directory was not chosen, unless only something else was asked for.
    fn reason_to_stay(&self, path: &Path) -> Option<Reason> {
        let left_out = self.scope.left_out.iter().find(|l| l.path == path)?;
        Some(left_out.reason).filter(|reason| *reason != Reason::NotChosen)
    }

    fn make(&mut self, decided: Decided<'a>) -> Result<Standing, EngineError> {
        let Decided { change, now, result, is_part } = decided;
        let Some(after) = &change.after else { return Ok(Standing::Stands) };
        let result = match result {
            Result3::LeaveOut(reason) => {
                self.leave_out(&change.path, reason);
                return Ok(Standing::LeftOut(reason));
            }
            Result3::KeepReality => {
                self.keep_reality(change)?;
                return Ok(Standing::LeftOut(Reason::KeptReality));
            }
            Result3::Conflict(conflict) => {
                self.planned.conflicts.push(conflict);
                return Ok(Standing::Conflict);
            }
            // Reality deleted it, and something in it is wanted.
            Result3::Nothing if now.is_none() => Result3::Take { looks: Looks::of(after)?, base: None },
            other => other,
        };
        if matches!(result, Result3::Take { .. }) {
            self.parents.made.insert(change.path.clone());
        }
        self.write(Decided { change, now, result, is_part })?;
        Ok(Standing::Stands)
    }
}

/// Whether the sandbox may have changed a directory itself that reality deleted: nobody knows which one it saw, and it is not there
/// for what the sandbox changed in it.
pub(crate) const IN_DOUBT: &str = "reality deleted the directory, and whether the sandbox changed it is not known";

pub(crate) fn is_in_doubt(change: &Change, filled: &HashSet<&OsStr>) -> bool {
    let is_directory = change.after.as_ref().is_some_and(|after| after.node.kind == Kind::Directory);
    let is_gone = change.has_drifted() && change.reality.is_none() && change.before.is_none() && change.deletion.is_none();
    is_directory && is_gone && !filled.contains(change.path.as_os_str())
}

/// The directories in which the sandbox has something that it changed.
pub(crate) fn filled(set: &ChangeSet) -> HashSet<&OsStr> {
    let mut filled = HashSet::new();
    for change in set.changes.iter().filter(|c| c.after.is_some()) {
        for directory in change.path.ancestors().skip(1) {
            if !filled.insert(directory.as_os_str()) {
                break;
            }
        }
    }
    filled
}
