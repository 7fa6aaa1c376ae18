//! What each wanted change means for reality as it is now: three sides, one result or a conflict.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use serde::Serialize;
use whatif_diff::content::LONGEST_TEXT;
use whatif_diff::pattern::{Patterns, Scope};
use whatif_diff::{Base, Change, Kind, Moved, State, git_index};
use whatif_overlay::Format;
use whatif_patch::Region;
use whatif_types::text;

use super::ApplyRequest;
use super::database::has_open_journal;
use super::select::{Chosen, Reason};
use crate::EngineError;
use crate::diff::CONTEXT_LINES;
use crate::git_directory::is_gits_own;
use crate::merge::{Collision, Content, Looks, Merged, Prefer, UNKNOWN, merge, stages_the_same, unmergeable};

/// What is to be at a path.
#[derive(Debug)]
pub(super) enum Result3 {
    /// As the sandbox has it, with these attributes.
    Take {
        looks: Looks,
        base: Option<NewBase>,
    },
    /// These bytes, with these attributes.
    Bytes {
        bytes: Vec<u8>,
        looks: Looks,
        base: NewBase,
    },
    /// Reality's content, with these attributes.
    Looks {
        looks: Looks,
        base: NewBase,
    },
    Remove,
    /// Reality is as it is to be.
    Nothing,
    /// It stays a change of the sandbox.
    LeaveOut(Reason),
    /// Reality's version was chosen; the sandbox's change is settled.
    KeepReality,
    Conflict(Conflict),
}

/// What the sandbox's change is relative to afterwards, where that is not reality.
#[derive(Debug)]
pub(super) struct NewBase {
    /// None if reality's are as good.
    pub bytes: Option<Vec<u8>>,
    pub looks: Looks,
    /// Reality has other bytes or attributes.
    pub reconciled: bool,
}

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

/// Reality and the sandbox both changed a path, and nobody but a person knows what is right.
#[derive(Clone, Debug, Serialize)]
pub struct Conflict {
    #[serde(with = "text::path")]
    pub path: PathBuf,
    pub why: &'static str,
    /// What each side did to the path.
    pub reality: Side,
    pub sandbox: Side,
    /// Where text collides: line in reality, reality's lines, the sandbox's lines.
    #[serde(skip)]
    pub regions: Vec<Region>,
}

impl Conflict {
    /// Whether a rebase puts both sides into the file, to be settled there.
    #[must_use]
    pub fn can_be_marked(&self) -> bool {
        !self.regions.is_empty() && !is_gits_own(&self.path)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    Changed,
    Added,
    Deleted,
    Unknown,
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

    pub(super) fn all<'a>(&self, chosen: &[Chosen<'a>]) -> Result<Vec<Decided<'a>>, EngineError> {
        let one = |choice: &Chosen<'a>| self.one(choice.change, choice.hunks.as_deref());
        let mut decided = chosen.iter().map(one).collect::<Result<Vec<_>, _>>()?;
        self.spare_databases(&mut decided)?;
        Ok(decided)
    }

    fn spare_databases(&self, decided: &mut [Decided<'_>]) -> Result<(), EngineError> {
        let taken: HashSet<PathBuf> = decided.iter().filter(|d| d.changes_content()).map(|d| d.change.path.clone()).collect();
        for one in decided.iter_mut().filter(|d| d.changes_content()) {
            let (path, Some(now)) = (&one.change.path, &one.now) else { continue };
            let is_open = has_open_journal(path, now, |journal| taken.contains(journal));
            if !is_open.map_err(|e| EngineError::io("look at", path, e))? {
                continue;
            }
            one.result = match self.settled(path) {
                Settled::Theirs => continue,
                Settled::Ours => Result3::KeepReality,
                _ => Result3::Conflict(Conflict {
                    path: path.clone(),
                    why: "reality has the database open: its journal holds what the sandbox has not seen",
                    reality: Side::Changed,
                    sandbox: if one.change.after.is_some() { Side::Changed } else { Side::Deleted },
                    regions: Vec::new(),
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
        if self.was_rebased && !is_settled && crate::rebase::has_markers(change)? {
            if settled == Settled::Ours {
                return Ok(Decided { result: Result3::KeepReality, ..decided });
            }
            decided.result = Result3::Conflict(Conflict {
                path: change.path.clone(),
                why: MARKERS,
                reality: Side::Changed,
                sandbox: Side::Changed,
                regions: Vec::new(),
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
        } else if self.ours.matches(path) {
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

/// The sandbox's content, which becomes real with attributes of both sides. What it has itself is what it starts from then.
fn taken(looks: Looks, sandbox: Looks) -> Result3 {
    let base = (looks != sandbox).then_some(NewBase { bytes: None, looks: sandbox, reconciled: true });
    Result3::Take { looks, base }
}

/// What an apply would make of a change where reality moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outlook {
    /// Both sides fit together.
    Merges,
    Conflict,
}

#[must_use]
pub fn outlook(change: &Change) -> Outlook {
    match three_way(change, now(change).as_ref(), None) {
        Ok(Result3::Conflict(_)) | Err(_) => Outlook::Conflict,
        Ok(_) => Outlook::Merges,
    }
}

/// Whether a rebase would put both sides of a conflict into the file.
pub(crate) fn can_be_marked(change: &Change) -> bool {
    matches!(three_way(change, now(change).as_ref(), None), Ok(Result3::Conflict(conflict)) if conflict.can_be_marked())
}

pub(super) fn three_way(change: &Change, now: Option<&State>, hunks: Option<&[usize]>) -> Result<Result3, EngineError> {
    // The base of a rename's addition is what was at its new path: nothing.
    let before = if change.deletion.is_some() { None } else { change.before.as_ref() };
    if change.has_lost_its_source() {
        return Ok(Result3::Conflict(Conflict {
            path: change.path.clone(),
            why: "the sandbox renamed the directory, reality deleted what it was before, and what the sandbox left unchanged in it is missing",
            reality: Side::Deleted,
            sandbox: Side::Changed,
            regions: Vec::new(),
        }));
    }
    let deleted_by_reality = change.base == Base::Unknown && now.is_none() && change.deletion.is_none();
    if !change.has_drifted() || (change.deletion.is_some() && now.is_none()) {
        return direct(change, now, hunks);
    }
    if let (Some(now), Some(after)) = (now, &change.after)
        && git_index::is_one(&change.path)
        && stages_the_same(now, after)?
    {
        return Ok(Result3::Nothing);
    }
    let conflict = |why, ours, theirs| {
        Ok(Result3::Conflict(Conflict { path: change.path.clone(), why, reality: ours, sandbox: theirs, regions: Vec::new() }))
    };
    let did = if before.is_some() || deleted_by_reality { Side::Changed } else { Side::Added };
    match (now, &change.after) {
        (None, None) => Ok(Result3::Nothing),
        // Made again only if something in it is wanted, unless the sandbox changed the directory itself.
        (None, Some(after)) if after.node.kind == Kind::Directory && before.is_none() => Ok(Result3::Nothing),
        (Some(_), _) if change.base == Base::Unknown => conflict(REPLACED, Side::Unknown, did_to(change)),
        (Some(_), None) => conflict(deleted_here(change), Side::Changed, Side::Deleted),
        (None, Some(_)) => conflict("the sandbox changed it, reality deleted it", Side::Deleted, did),
        (Some(now), Some(after)) if now.node.kind == Kind::Directory && after.node.kind == Kind::Directory => {
            let start = before.filter(|b| change.base == Base::Kept && b.node.kind == Kind::Directory);
            Ok(merged(change, start, now, after, None)?)
        }
        (Some(now), Some(after)) if change.base == Base::Lost => {
            conflict(unmergeable(now, after)?.unwrap_or(UNKNOWN), Side::Unknown, did)
        }
        (Some(now), Some(after)) => match before {
            Some(before) => merged(change, Some(before), now, after, hunks),
            None => {
                // What cannot be read has no lines to show, and is a conflict all the same.
                let collision = merge(None, now, after, None).ok().and_then(Result::err);
                let regions = collision.map(|collision| collision.regions).unwrap_or_default();
                let (reality, path) = (Side::Added, change.path.clone());
                Ok(Result3::Conflict(Conflict { path, why: BOTH_ADDED, reality, sandbox: did, regions }))
            }
        },
    }
}

/// The sandbox's version is of no use to anybody as it is, so it cannot be chosen.
pub(crate) const MARKERS: &str = "the markers of a rebase are still in it";

pub(crate) const BOTH_ADDED: &str = "both added it, each its own version";

/// Why what the sandbox has no more cannot go from reality, or come back to the sandbox.
pub(crate) fn deleted_here(change: &Change) -> &'static str {
    match change.drift() {
        Moved::AddedOrChanged => "the sandbox deleted it or its directory, and reality added or changed it since",
        _ => "the sandbox deleted it, reality changed it",
    }
}

const REPLACED: &str = "reality replaced it while the sandbox was running, and which version the sandbox saw is not known";

fn did_to(change: &Change) -> Side {
    match (&change.before, &change.after) {
        (_, None) => Side::Deleted,
        (None, _) => Side::Added,
        _ => Side::Changed,
    }
}

/// What reality had when the change was found.
pub(super) fn now(change: &Change) -> Option<State> {
    change.reality.clone().map(|node| State::new(node, change.path.clone(), Format::None))
}

/// Reality is what the sandbox started from.
fn direct(change: &Change, now: Option<&State>, hunks: Option<&[usize]>) -> Result<Result3, EngineError> {
    let Some(after) = &change.after else {
        return Ok(if now.is_some() { Result3::Remove } else { Result3::Nothing });
    };
    let all = Result3::Take { looks: Looks::of(after)?, base: None };
    // Hunks of a renamed file are taken into what it was before.
    let start = now.or(change.before.as_ref().filter(|_| change.deletion.is_some()));
    let (Some(numbers), Some(start)) = (hunks, start) else { return Ok(all) };
    let (old, new) = (bytes(start)?, bytes(after)?);
    let taken = whatif_patch::take_hunks(&old, &new, CONTEXT_LINES, &|index| numbers.contains(&(index + 1)));
    if taken == new {
        return Ok(all);
    }
    let looks = Looks::of(now.unwrap_or(after))?;
    let base = NewBase { bytes: Some(taken.clone()), looks: looks.clone(), reconciled: false };
    Ok(Result3::Bytes { bytes: taken, looks, base })
}

/// Both sides moved, and are of one kind.
fn merged(
    change: &Change,
    before: Option<&State>,
    now: &State,
    after: &State,
    hunks: Option<&[usize]>,
) -> Result<Result3, EngineError> {
    let Merged { content, looks } = match merge(before, now, after, hunks)? {
        Ok(merged) => merged,
        Err(Collision { why, regions, .. }) => {
            let reality = if before.is_none() { Side::Unknown } else { Side::Changed };
            return Ok(Result3::Conflict(Conflict { path: change.path.clone(), why, reality, sandbox: Side::Changed, regions }));
        }
    };
    // Of a part of its text, the sandbox's own attributes are still to come.
    let sandbox = match (hunks, before) {
        (Some(_), Some(before)) => Looks::of(before)?,
        _ => Looks::of(after)?,
    };
    Ok(match content {
        Content::Reality if looks == Looks::of(now)? => Result3::Nothing,
        Content::Reality => {
            let reconciled = looks != sandbox || !now.has_same_content(after)?;
            let is_kept = reconciled && now.node.kind == Kind::File && after.node.size <= LONGEST_TEXT;
            let bytes = if is_kept { Some(bytes(after)?) } else { None };
            Result3::Looks { looks, base: NewBase { bytes, looks: sandbox, reconciled } }
        }
        Content::Sandbox => taken(looks, sandbox),
        Content::Both { bytes, sandbox: theirs } => {
            let reconciled = bytes != theirs || looks != sandbox;
            Result3::Bytes { bytes, looks, base: NewBase { bytes: Some(theirs), looks: sandbox, reconciled } }
        }
    })
}

fn bytes(state: &State) -> Result<Vec<u8>, EngineError> {
    state.bytes().map(Into::into).map_err(|e| EngineError::io("read", &state.at, e))
}
