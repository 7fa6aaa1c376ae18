//! What becomes of one change of a sandbox where reality may have moved.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde::Serialize;
use whatif_diff::content::LONGEST_TEXT;
use whatif_diff::{Base, Change, Kind, Moved, State, git_index};
use whatif_overlay::Format;
use whatif_patch::Region;
use whatif_types::text;

use super::{CONTEXT_LINES, Collision, Content, Looks, Merged, Reason, UNKNOWN, merge, stages_the_same, unmergeable};
use crate::EngineError;
use crate::git_directory::is_gits_own;

/// What is to be at a path.
#[derive(Debug)]
pub(crate) enum Result3 {
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
    /// The same, because it made the sandbox's change as well, among others.
    Already {
        base: NewBase,
    },
    /// It stays a change of the sandbox.
    LeaveOut(Reason),
    /// Reality's version was chosen; the sandbox's change is settled.
    KeepReality,
    Conflict(Conflict),
}

/// What the sandbox's change is relative to afterwards, where that is not reality.
#[derive(Debug)]
pub(crate) struct NewBase {
    /// None if reality's are as good.
    pub bytes: Option<Vec<u8>>,
    pub looks: Looks,
    /// Reality has other bytes or attributes.
    pub reconciled: bool,
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
    /// What the sandbox renamed it to, or made it of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub renamed: Option<OtherName>,
}

/// The other name of something that the sandbox renamed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OtherName {
    To(#[serde(with = "text::path")] PathBuf),
    From(#[serde(with = "text::path")] PathBuf),
}

impl OtherName {
    /// Of all that a sandbox renamed, by both names.
    pub(crate) fn all(changes: &[Change]) -> HashMap<&Path, Self> {
        let renames = changes.iter().filter_map(|change| Some((change.old_path()?, change.path.as_path())));
        renames.flat_map(|(old, new)| [(old, Self::To(new.to_owned())), (new, Self::From(old.to_owned()))]).collect()
    }
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

/// The sandbox's content, which becomes real with attributes of both sides. What it has itself is what it starts from then.
pub(crate) fn taken(looks: Looks, sandbox: Looks) -> Result3 {
    let base = (looks != sandbox).then_some(NewBase { bytes: None, looks: sandbox, reconciled: true });
    Result3::Take { looks, base }
}

/// What an apply would make of a change where reality moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outlook {
    /// Both sides fit together.
    Merges,
    /// Nothing has to be written: reality has the same, or what means the same.
    Same,
    Conflict,
}

/// With the reason for a conflict, in the words of an apply.
#[must_use]
pub fn outlook(change: &Change) -> (Outlook, Option<&'static str>) {
    match three_way(change, now(change).as_ref(), None) {
        Ok(Result3::Conflict(conflict)) => (Outlook::Conflict, Some(conflict.why)),
        Err(_) => (Outlook::Conflict, None),
        Ok(Result3::Nothing | Result3::Already { .. }) => (Outlook::Same, None),
        Ok(_) => (Outlook::Merges, None),
    }
}

/// Whether a rebase would put both sides of a conflict into the file.
pub(crate) fn can_be_marked(change: &Change) -> bool {
    matches!(three_way(change, now(change).as_ref(), None), Ok(Result3::Conflict(conflict)) if conflict.can_be_marked())
}

pub(crate) fn three_way(change: &Change, now: Option<&State>, hunks: Option<&[usize]>) -> Result<Result3, EngineError> {
    // The base of a rename's addition is what was at its new path: nothing.
    let before = if change.deletion.is_some() { None } else { change.before.as_ref() };
    if change.has_lost_its_source() {
        return Ok(Result3::Conflict(Conflict {
            path: change.path.clone(),
            why: "the sandbox renamed the directory, reality deleted what it was before, and what the sandbox left unchanged in it is missing",
            reality: Side::Deleted,
            sandbox: Side::Changed,
            regions: Vec::new(),
            renamed: None,
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
        Ok(Result3::Conflict(Conflict {
            path: change.path.clone(),
            why,
            reality: ours,
            sandbox: theirs,
            regions: Vec::new(),
            renamed: None,
        }))
    };
    let did = if before.is_some() || deleted_by_reality { Side::Changed } else { Side::Added };
    match (now, &change.after) {
        (None, None) => Ok(Result3::Nothing),
        // Made again only if something in it is wanted, unless the sandbox changed the directory itself.
        (None, Some(after)) if after.node.kind == Kind::Directory && before.is_none() => Ok(Result3::Nothing),
        (Some(_), _) if change.base == Base::Unknown => conflict(REPLACED, Side::Unknown, did_to(change)),
        (Some(_), None) => conflict(deleted_here(change), Side::Changed, Side::Deleted),
        (None, Some(_)) => conflict(DELETED_THERE, Side::Deleted, did),
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
                Ok(Result3::Conflict(Conflict { path, why: BOTH_ADDED, reality, sandbox: did, regions, renamed: None }))
            }
        },
    }
}

/// The sandbox's version is of no use to anybody as it is, so it cannot be chosen.
pub(crate) const MARKERS: &str = "the markers of a rebase are still in it";

pub(crate) const DELETED_THERE: &str = "the sandbox changed it, reality deleted it";

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
pub(crate) fn now(change: &Change) -> Option<State> {
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
            return Ok(Result3::Conflict(Conflict {
                path: change.path.clone(),
                why,
                reality,
                sandbox: Side::Changed,
                regions,
                renamed: None,
            }));
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
            let (is_real, has_looks) = (bytes == self::bytes(now)?, looks == Looks::of(now)?);
            let base = NewBase { bytes: Some(theirs), looks: sandbox, reconciled };
            match (is_real, has_looks) {
                (true, true) => Result3::Already { base },
                (true, false) => Result3::Looks { looks, base },
                (false, _) => Result3::Bytes { bytes, looks, base },
            }
        }
    })
}

fn bytes(state: &State) -> Result<Vec<u8>, EngineError> {
    state.bytes().map(Into::into).map_err(|e| EngineError::io("read", &state.at, e))
}

/// The sandbox's version cannot be chosen: what it never saw would be deleted for it.
pub(crate) const NOT_SEEN: &str = "reality has a directory there, with something in it that the sandbox does not know";
