//! What lies in a directory of reality's that stays, while the sandbox has something else in its place, or nothing.
//!
//! Whoever chooses reality's version of a directory chooses what is in it, however that was said: without what the sandbox deleted
//! in there, it would be a directory that neither side has.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use whatif_diff::{Change, ChangeSet, Kind};

use super::plan::Planned;

/// The paths that a plan changes and that have to stay as they are.
pub(super) fn to_keep(set: &ChangeSet, planned: &Planned) -> Vec<PathBuf> {
    let settled: HashSet<&Path> = planned.settled.iter().map(PathBuf::as_path).collect();
    let both = set.changes.iter().flat_map(|change| [Some(change), change.deletion.as_deref()]).flatten();
    let stays_whole = both.filter(|change| settled.contains(change.path.as_path()) && is_only_real(change));
    let directories: HashSet<&Path> = stays_whole.map(|change| change.path.as_path()).collect();
    let lies_in_one = |path: &&PathBuf| path.ancestors().skip(1).any(|above| directories.contains(above));
    planned.paths.iter().filter(lies_in_one).cloned().collect()
}

/// Whether reality has a directory where the sandbox has none.
fn is_only_real(change: &Change) -> bool {
    let is_directory = |kind: Option<Kind>| kind == Some(Kind::Directory);
    is_directory(change.reality.as_ref().map(|node| node.kind)) && !is_directory(change.after.as_ref().map(|a| a.node.kind))
}
