//! What each wanted change means for reality as it is now: three sides, one result or a conflict.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use whatif_diff::pattern::{Patterns, Scope};
use whatif_diff::{Base, Bases, Change, State};

use super::ApplyRequest;
use super::select::Chosen;
use crate::EngineError;
use crate::changes::database::Databases;
use crate::merge::{Conflict, Looks, MARKERS, Prefer, Reason, Result3, Side, now, taken, three_way};

/// One path and what becomes of it.
#[derive(Debug)]
pub(super) struct Decided<'a> {
    pub change: &'a Change,
    pub now: Option<State>,
    pub result: Result3,
    pub is_part: bool,
}

impl Decided<'_> {
    fn changes_content(&self) -> bool {
        matches!(self.result, Result3::Take { .. } | Result3::Bytes { .. } | Result3::Remove)
    }
}

/// How to settle a path, if somebody said so.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Settled {
    /// Reality's version, conflict or not.
    OursByName,
    Ours,
    Theirs,
    Skip,
    Held,
    /// An object that reality keeps.
    GitObject,
    GitLock,
    Open,
}

/// Decides about changes, as the request wants conflicts to be settled.
pub(super) struct Decider {
    ours: Patterns,
    theirs: Patterns,
    skip: Patterns,
    was_rebased: bool,
    /// Further paths where reality's version stays, because of others where it does.
    kept: HashSet<PathBuf>,
    /// Paths that stay because of where the sandbox moved what is there.
    held: HashMap<PathBuf, PathBuf>,
    /// Git's objects that stay.
    objects: HashSet<PathBuf>,
    /// Git's locks, which are never taken.
    locks: HashSet<PathBuf>,
}

impl Decider {
    pub(super) fn new(
        request: &ApplyRequest,
        scope: Scope<'_>,
        was_rebased: bool,
        locks: HashSet<PathBuf>,
    ) -> Result<Self, EngineError> {
        let patterns = |list: &[String]| Patterns::new(list, scope).map_err(EngineError::from);
        let (ours, theirs) = (patterns(&request.ours)?, patterns(&request.theirs)?);
        let skip = Patterns::protecting(&request.skip, scope)?;
        let (kept, held, objects) = (HashSet::new(), HashMap::new(), HashSet::new());
        Ok(Self { ours, theirs, skip, was_rebased, kept, held, objects, locks })
    }

    /// Leaves reality's version at further paths. False if that is so already.
    pub(super) fn keep(&mut self, paths: Vec<PathBuf>) -> bool {
        let known = self.kept.len();
        self.kept.extend(paths);
        self.kept.len() > known
    }

    /// Leaves paths out, each because of the place that its content was moved to. False if that is so already.
    pub(super) fn hold(&mut self, paths: Vec<(PathBuf, PathBuf)>) -> bool {
        let known = self.held.len();
        self.held.extend(paths);
        self.held.len() > known
    }

    /// Leaves git's objects where they are. False if that is so already.
    pub(super) fn keep_objects(&mut self, paths: Vec<PathBuf>) -> bool {
        let known = self.objects.len();
        self.objects.extend(paths);
        self.objects.len() > known
    }

    pub(super) fn keeps_object(&self, path: &Path) -> bool {
        self.objects.contains(path)
    }

    /// Where the content is of a path that is held.
    pub(super) fn moved_to(&self, path: &Path) -> Option<&Path> {
        self.held.get(path).map(PathBuf::as_path)
    }

    /// Whether something in a directory stays because of where the sandbox moved it.
    pub(super) fn holds_within(&self, directory: &Path) -> bool {
        self.held.keys().any(|path| path.starts_with(directory))
    }

    /// Whether conflicts at this path are settled on reality's version.
    pub(super) fn keeps_reality(&self, path: &Path) -> bool {
        matches!(self.settled(path), Settled::Ours | Settled::OursByName)
    }

    /// Whether conflicts at this path are settled on the sandbox's version.
    pub(super) fn takes_sandboxs(&self, path: &Path) -> bool {
        self.settled(path) == Settled::Theirs
    }

    /// Of those that are chosen among all changes.
    pub(super) fn all<'a>(
        &self,
        chosen: &[Chosen<'a>],
        changes: &[Change],
        bases: &Bases,
    ) -> Result<Vec<Decided<'a>>, EngineError> {
        let one = |choice: &Chosen<'a>| self.one(choice.change, choice.hunks.as_deref());
        let mut decided = chosen.iter().map(one).collect::<Result<Vec<_>, _>>()?;
        self.spare_databases(&mut decided, changes, bases)?;
        Ok(decided)
    }

    fn spare_databases(&self, decided: &mut [Decided<'_>], changes: &[Change], bases: &Bases) -> Result<(), EngineError> {
        let taken = decided.iter().filter(|d| d.changes_content()).map(|d| d.change.path.as_path()).collect();
        let databases = Databases::new(changes, taken, bases)?;
        for one in decided {
            let path = &one.change.path;
            let damage = match &one.result {
                // What cannot be chosen shall not be offered.
                Result3::Conflict(_) => Ok(databases.damage_to_cluster(path)),
                _ if one.changes_content() => databases.damage(one.change, one.now.as_ref()),
                _ => continue,
            };
            let Some(why) = damage.map_err(|e| EngineError::io("look at", path, e))? else { continue };
            // Nobody can want the sandbox's version of what would be damaged with it.
            one.result = match self.settled(path) {
                Settled::Ours => Result3::KeepReality,
                _ => Result3::Conflict(Conflict {
                    path: path.clone(),
                    why,
                    reality: Side::Changed,
                    sandbox: if one.change.after.is_some() { Side::Changed } else { Side::Deleted },
                    regions: Vec::new(),
                    renamed: None,
                }),
            };
        }
        Ok(())
    }

    /// Of a rename only the addition.
    pub(super) fn one<'a>(&self, change: &'a Change, hunks: Option<&[usize]>) -> Result<Decided<'a>, EngineError> {
        let settled = self.settled(&change.path);
        let mut decided = one(change, hunks, settled)?;
        let is_settled = !matches!(settled, Settled::Ours | Settled::Theirs | Settled::Open);
        if self.was_rebased && !is_settled && crate::changes::rebase::has_markers(change)? {
            if settled == Settled::Ours {
                return Ok(Decided { result: Result3::KeepReality, ..decided });
            }
            decided.result = Result3::Conflict(Conflict {
                path: change.path.clone(),
                why: MARKERS,
                reality: Side::Changed,
                sandbox: Side::Changed,
                regions: Vec::new(),
                renamed: None,
            });
        }
        Ok(decided)
    }

    fn settled(&self, path: &Path) -> Settled {
        if self.skip.matches(path) {
            Settled::Skip
        } else if self.locks.contains(path) {
            Settled::GitLock
        } else if self.objects.contains(path) {
            Settled::GitObject
        } else if self.held.contains_key(path) {
            Settled::Held
        } else if self.kept.contains(path) || self.ours.matches_literally(path) {
            Settled::OursByName
        } else if self.ours.matches(path) && !self.theirs.matches_literally(path) {
            Settled::Ours
        } else if self.theirs.matches(path) {
            Settled::Theirs
        } else {
            Settled::Open
        }
    }
}

fn one<'a>(change: &'a Change, hunks: Option<&[usize]>, settled: Settled) -> Result<Decided<'a>, EngineError> {
    // Reality as it was when the change was found: what is decided about is what the transaction will insist on.
    let now = now(change);
    let result = match settled {
        Settled::Skip => Result3::LeaveOut(Reason::Skipped),
        Settled::Held => Result3::LeaveOut(Reason::Moved),
        Settled::GitLock => Result3::LeaveOut(Reason::GitLock),
        Settled::OursByName | Settled::GitObject => Result3::KeepReality,
        Settled::Theirs | Settled::Ours => match three_way(change, now.as_ref(), hunks)? {
            Result3::Conflict(_) if settled == Settled::Ours => Result3::KeepReality,
            Result3::Conflict(_) => take(change, now.as_ref())?,
            fits => fits,
        },
        Settled::Open => three_way(change, now.as_ref(), hunks)?,
    };
    Ok(Decided { change, now, result, is_part: hunks.is_some() })
}

/// What the sandbox still has as it was, and reality has no more, is put back.
pub(super) fn put_back(change: &Change) -> Result<Decided<'_>, EngineError> {
    let result = match &change.after {
        Some(after) => Result3::Take { looks: Looks::of(after)?, base: None },
        None => Result3::Nothing,
    };
    Ok(Decided { change, now: None, result, is_part: false })
}

/// The sandbox's version, whatever reality has. Of the attributes, those that only reality changed are not in question.
fn take(change: &Change, now: Option<&State>) -> Result<Result3, EngineError> {
    Ok(match (&change.after, now) {
        (Some(after), Some(now)) if change.base == Base::Kept && now.node.kind == after.node.kind => {
            let (theirs, start) = (Looks::of(after)?, change.before.as_ref().map(Looks::of).transpose()?);
            let looks = Looks::merge(start.as_ref(), &Looks::of(now)?, &theirs, Prefer::Sandbox);
            taken(looks.unwrap_or_else(|_| theirs.clone()), theirs)
        }
        (Some(after), _) => Result3::Take { looks: Looks::of(after)?, base: None },
        (None, Some(_)) => Result3::Remove,
        (None, None) => Result3::Nothing,
    })
}
