//! What stays in reality because the place it was moved to is left out.
//!
//! Its deletion alone would take the content from reality, and only the sandbox would have it. Where a person names the old path,
//! the deletion is what they want.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use whatif_apply::Change as Act;
use whatif_diff::pattern::{Patterns, Scope};
use whatif_diff::{Change, ChangeSet};

use super::ApplyRequest;
use super::plan::Planned;
use super::select::LeftOut;
use crate::EngineError;
use crate::merge::{Reason, now};

/// What a request names, so that it need not be held.
pub(super) struct Named<'a> {
    patterns: Patterns,
    project: &'a Path,
}

impl<'a> Named<'a> {
    pub(super) fn by(request: &ApplyRequest, scope: Scope<'_>, project: &'a Path) -> Result<Self, EngineError> {
        let paths = request.files.iter().chain(request.hunks.iter().map(|h| &h.path)).cloned();
        Ok(Self { patterns: Patterns::new(&paths.collect::<Vec<String>>(), scope)?, project })
    }

    /// A wildcard names nothing, nor does the project as a whole.
    fn has(&self, path: &Path) -> bool {
        let is_in_named = self.patterns.matches_literally(path) && !self.patterns.matches_literally(self.project);
        is_in_named || self.patterns.names(path)
    }
}

/// The paths that a plan empties and that have to stay, each with the place that is left out.
pub(super) fn to_hold(
    set: &ChangeSet,
    not_chosen: &[LeftOut],
    planned: &Planned,
    named: &Named<'_>,
) -> Result<Vec<(PathBuf, PathBuf)>, EngineError> {
    let left_out = not_chosen.iter().chain(&planned.left_out).filter(|l| holds(l.reason));
    let left_out: HashSet<&Path> = left_out.map(|l| l.path.as_path()).collect();
    if left_out.is_empty() {
        return Ok(Vec::new());
    }
    let real: HashSet<&Path> = planned.paths.iter().chain(&planned.unchanged).map(PathBuf::as_path).collect();
    let renames: HashMap<&Path, &Change> = set.changes.iter().filter_map(|c| Some((c.old_path()?, c))).collect();
    let mut held = Vec::new();
    for (path, operation) in planned.paths.iter().zip(&planned.plan.operations) {
        if !may_take_away(&operation.change) || named.has(path) {
            continue;
        }
        let rename = renames.get(path.as_path()).map(|rename| rename.path.as_path());
        let moved_to = set.find(path).map_or(&[][..], |change| &change.moved_to);
        let places: Vec<&Path> = rename.into_iter().chain(moved_to.iter().map(PathBuf::as_path)).collect();
        if places.iter().any(|place| real.contains(place)) {
            continue;
        }
        for place in places.into_iter().filter(|place| left_out.contains(place)) {
            if !has_in_reality(set, place)? {
                held.push((path.clone(), place.to_owned()));
                break;
            }
        }
    }
    Ok(held)
}

/// Of a rename whose other half was asked for, one half is wanted. What reality keeps, `sources` is about.
fn holds(reason: Reason) -> bool {
    !reason.is_settled() && !matches!(reason, Reason::OtherHalf | Reason::NotEmpty)
}

/// The change set says whether what it replaces is somewhere else.
fn may_take_away(act: &Act) -> bool {
    matches!(act, Act::Remove | Act::Put { .. })
}

/// Whether reality came to have the same at a place that is left out.
fn has_in_reality(set: &ChangeSet, place: &Path) -> Result<bool, EngineError> {
    let Some(change) = set.find(place) else { return Ok(false) };
    match (now(change), &change.after) {
        (Some(now), Some(after)) => match now.has_same_content(after) {
            Err(unreadable) if unreadable.is_closed() => Ok(false),
            same => Ok(same?),
        },
        _ => Ok(false),
    }
}
