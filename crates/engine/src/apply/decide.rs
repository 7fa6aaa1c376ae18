//! What each wanted change means for reality as it is now: three sides, one result or a conflict.

use std::path::{Path, PathBuf};

use serde::Serialize;
use whatif_diff::attributes::Attributes as Xattrs;
use whatif_diff::pattern::Patterns;
use whatif_diff::{Base, Change, Kind, Marks, State, content};
use whatif_patch::{Merge, Region};
use whatif_types::text;

use super::ApplyRequest;
use super::select::Chosen;
use crate::EngineError;
use crate::diff::CONTEXT_LINES;

/// What shall be at a path.
#[derive(Debug)]
pub(super) enum Result3 {
    /// As the sandbox has it.
    TakeAll,
    /// These bytes, with these attributes.
    Bytes {
        bytes: Vec<u8>,
        attributes: Wanted,
        base: NewBase,
    },
    /// Reality's content, with these attributes.
    Attributes(Wanted),
    Remove,
    /// Reality is as it shall be.
    Nothing,
    /// Left for later.
    Skip,
    /// Reality's version was chosen; the sandbox's change is settled.
    KeepReality,
    Conflict(Conflict),
}

/// Attributes that a merge settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Wanted {
    pub mode: u32,
    pub owner: (u32, u32),
    pub xattrs: Xattrs,
}

/// What the sandbox's change is relative to afterwards.
#[derive(Debug)]
pub(super) struct NewBase {
    pub bytes: Vec<u8>,
    /// Reality has other bytes.
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
    Open,
}

pub(super) fn all<'a>(
    chosen: &[Chosen<'a>],
    request: &ApplyRequest,
    roots: &[&Path],
    was_rebased: bool,
) -> Result<Vec<Decided<'a>>, EngineError> {
    let patterns = |list: &[String]| Patterns::new(list, roots).map_err(EngineError::from);
    let (ours, theirs, skip) = (patterns(&request.ours)?, patterns(&request.theirs)?, patterns(&request.skip)?);
    let settled = |path: &Path| {
        if skip.matches(path) {
            Settled::Skip
        } else if ours.matches_literally(path) {
            Settled::OursByName
        } else if ours.matches(path) {
            Settled::Ours
        } else if theirs.matches(path) {
            Settled::Theirs
        } else {
            Settled::Open
        }
    };
    let mut decided = Vec::with_capacity(chosen.len());
    for choice in chosen {
        // A rename is a deletion and an addition again.
        if let Some(deletion) = &choice.change.deletion {
            decided.push(one(deletion, None, settled(&deletion.path))?);
        }
        let settled = settled(&choice.change.path);
        let mut one = one(choice.change, choice.hunks.as_deref(), settled)?;
        if was_rebased && settled != Settled::Skip && crate::rebase::has_markers(choice.change)? {
            one.result = Result3::Conflict(Conflict {
                path: choice.change.path.clone(),
                why: "the markers of a rebase are still in it",
                reality: Side::Changed,
                sandbox: Side::Changed,
                regions: Vec::new(),
            });
        }
        decided.push(one);
    }
    Ok(decided)
}

fn one<'a>(change: &'a Change, hunks: Option<&[usize]>, settled: Settled) -> Result<Decided<'a>, EngineError> {
    // Reality as it was when the change was found: what is decided about is what the transaction will insist on.
    let now = now(change);
    let result = match settled {
        Settled::Skip => Result3::Skip,
        Settled::OursByName => Result3::KeepReality,
        Settled::Theirs | Settled::Ours => match three_way(change, now.as_ref(), hunks)? {
            Result3::Conflict(_) if settled == Settled::Ours => Result3::KeepReality,
            Result3::Conflict(_) => take(change, now.as_ref()),
            fits => fits,
        },
        Settled::Open => three_way(change, now.as_ref(), hunks)?,
    };
    Ok(Decided { change, now, result, is_part: hunks.is_some() })
}

/// The sandbox's version, whatever reality has.
fn take(change: &Change, now: Option<&State>) -> Result3 {
    match (&change.after, now) {
        (Some(_), _) => Result3::TakeAll,
        (None, Some(_)) => Result3::Remove,
        (None, None) => Result3::Nothing,
    }
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

fn three_way(change: &Change, now: Option<&State>, hunks: Option<&[usize]>) -> Result<Result3, EngineError> {
    // The base of a rename's addition is what was at its new path: nothing.
    let before = if change.deletion.is_some() { None } else { change.before.as_ref() };
    let is_index = change.path.ends_with(".git/index");
    if change.has_lost_its_source() {
        return Ok(Result3::Conflict(Conflict {
            path: change.path.clone(),
            why: "the sandbox renamed the directory, reality deleted what it was before, and what the sandbox left unchanged in it is missing",
            reality: Side::Deleted,
            sandbox: Side::Changed,
            regions: Vec::new(),
        }));
    }
    if !change.has_drifted() || (change.deletion.is_some() && now.is_none()) {
        return direct(change, now, hunks);
    }
    // Git makes its index anew from what it finds; two versions of it cannot be merged.
    if is_index {
        return Ok(Result3::Skip);
    }
    let conflict = |why, ours, theirs| {
        Ok(Result3::Conflict(Conflict { path: change.path.clone(), why, reality: ours, sandbox: theirs, regions: Vec::new() }))
    };
    let did = if before.is_some() { Side::Changed } else { Side::Added };
    match (now, &change.after) {
        (None, None) => Ok(Result3::Nothing),
        // Made again only if something in it is wanted.
        (None, Some(after)) if after.node.kind == Kind::Directory => Ok(Result3::Nothing),
        (Some(_), None) => conflict("the sandbox deleted it, reality changed it", Side::Changed, Side::Deleted),
        (None, Some(_)) => conflict("the sandbox changed it, reality deleted it", Side::Deleted, did),
        (Some(_), Some(_)) if change.base == Base::Lost => {
            conflict("both changed it, and what the sandbox started from is not known", Side::Unknown, did)
        }
        (Some(now), Some(after)) => match before {
            Some(before) if [before, now, after].iter().all(|s| s.node.kind == Kind::File) => {
                merged(change, before, now, after, hunks)
            }
            _ => conflict("both changed it, and it cannot be merged", Side::Changed, did),
        },
    }
}

fn now(change: &Change) -> Option<State> {
    change.reality.clone().map(|node| State::new(node, change.path.clone(), Marks::None))
}

/// Reality is what the sandbox started from.
fn direct(change: &Change, now: Option<&State>, hunks: Option<&[usize]>) -> Result<Result3, EngineError> {
    let Some(after) = &change.after else {
        return Ok(if now.is_some() { Result3::Remove } else { Result3::Nothing });
    };
    let (Some(numbers), Some(now)) = (hunks, now) else { return Ok(Result3::TakeAll) };
    let (old, new) = (bytes(now)?, bytes(after)?);
    let taken = whatif_patch::take_hunks(&old, &new, CONTEXT_LINES, &|index| numbers.contains(&(index + 1)));
    if taken == new {
        return Ok(Result3::TakeAll);
    }
    let base = NewBase { bytes: taken.clone(), reconciled: false };
    Ok(Result3::Bytes { bytes: taken, attributes: wanted(now)?, base })
}

/// All three are files, and what the sandbox started from is known.
fn merged(change: &Change, before: &State, now: &State, after: &State, hunks: Option<&[usize]>) -> Result<Result3, EngineError> {
    let conflict =
        |why, regions| Conflict { path: change.path.clone(), why, reality: Side::Changed, sandbox: Side::Changed, regions };
    let attributes = match hunks {
        Some(_) => Some(wanted(now)?),
        None => settle_attributes(&wanted(before)?, &wanted(now)?, &wanted(after)?),
    };
    let Some(attributes) = attributes else {
        return Ok(Result3::Conflict(conflict("both changed its mode, owner or attributes", Vec::new())));
    };
    let Ok(ours) = bytes(now) else {
        return Ok(Result3::Conflict(conflict("both changed it, and it is too large to be merged", Vec::new())));
    };
    let (base, new) = (bytes(before)?, bytes(after)?);
    let theirs = match hunks {
        Some(numbers) => whatif_patch::take_hunks(&base, &new, CONTEXT_LINES, &|index| numbers.contains(&(index + 1))),
        None => new,
    };
    let bytes = if base == theirs || ours == theirs {
        ours.clone()
    } else if base == ours {
        theirs.clone()
    } else if [&base, &ours, &theirs].iter().any(|b| whatif_patch::is_binary(b)) {
        return Ok(Result3::Conflict(conflict("both changed it, and it is not text", Vec::new())));
    } else {
        match whatif_patch::merge(&base, &ours, &theirs) {
            Merge::Clean(bytes) => bytes,
            Merge::Conflicted(conflicted) => {
                return Ok(Result3::Conflict(conflict("both changed the same lines", conflicted.regions)));
            }
        }
    };
    if bytes == ours {
        return Ok(if attributes == wanted(now)? { Result3::Nothing } else { Result3::Attributes(attributes) });
    }
    let reconciled = bytes != theirs;
    Ok(Result3::Bytes { bytes, attributes, base: NewBase { bytes: theirs, reconciled } })
}

pub(super) fn wanted(state: &State) -> Result<Wanted, EngineError> {
    Ok(Wanted { mode: state.node.mode, owner: (state.node.uid, state.node.gid), xattrs: state.attributes()?.clone() })
}

/// Each attribute by itself: who changed it decides; `None` if both did, differently.
fn settle_attributes(before: &Wanted, now: &Wanted, after: &Wanted) -> Option<Wanted> {
    Some(Wanted {
        mode: settle(&before.mode, &now.mode, &after.mode)?,
        owner: settle(&before.owner, &now.owner, &after.owner)?,
        xattrs: settle(&before.xattrs, &now.xattrs, &after.xattrs)?,
    })
}

fn settle<T: PartialEq + Clone>(before: &T, ours: &T, theirs: &T) -> Option<T> {
    if before == theirs || ours == theirs {
        Some(ours.clone())
    } else if before == ours {
        Some(theirs.clone())
    } else {
        None
    }
}

fn bytes(state: &State) -> Result<Vec<u8>, EngineError> {
    content::read(&state.at).map_err(|e| EngineError::io("read", &state.at, e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_changed_an_attribute_decides() {
        assert_eq!(settle(&0o644, &0o644, &0o755), Some(0o755));
        assert_eq!(settle(&0o644, &0o600, &0o644), Some(0o600));
        assert_eq!(settle(&0o644, &0o600, &0o600), Some(0o600));
        assert_eq!(settle(&0o644, &0o600, &0o755), None);
    }
}
