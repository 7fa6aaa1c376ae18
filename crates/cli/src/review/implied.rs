//! Directories that come or go with what is in them. Nobody decides about them: their verdict follows.

use std::collections::HashMap;
use std::path::Path;

use whatif_engine::changes::review::Verdict;
use whatif_engine::{Change, ChangeKind};

use super::decisions::Mark;
use super::facts::{Facts, comes_or_goes};

/// One such directory.
#[derive(Debug)]
pub struct Implied {
    /// The change that is the directory.
    pub change: usize,
    /// Open changes beneath it, and of files that were moved out of it.
    pub within: Vec<usize>,
}

/// Finds them, and notes in the facts that they are. The changes are in the order of their paths.
#[must_use]
pub fn find(changes: &[Change], facts: &mut [Facts]) -> Vec<Implied> {
    let mut by_path: HashMap<&Path, usize> = HashMap::new();
    for (index, change) in changes.iter().enumerate().filter(|(i, c)| facts[*i].is_directory && comes_or_goes(c.kind)) {
        by_path.insert(&change.path, index);
    }
    let mut within: HashMap<usize, Vec<usize>> = HashMap::new();
    for (index, change) in changes.iter().enumerate() {
        let places = std::iter::once(change.path.as_path()).chain(change.old_path());
        let above = places.flat_map(|p| p.ancestors().skip(1)).filter_map(|a| by_path.get(a));
        for directory in above.filter(|d| **d != index) {
            within.entry(*directory).or_default().push(index);
        }
    }
    let mut found = Vec::new();
    // From the innermost on: a directory with nothing to decide about in it is itself decided about.
    let mut directories: Vec<usize> = within.keys().copied().collect();
    directories.sort_unstable_by(|a, b| b.cmp(a));
    for directory in directories {
        let open: Vec<usize> = within[&directory].iter().copied().filter(|i| facts[*i].is_open()).collect();
        if !open.is_empty() {
            facts[directory].is_implied = true;
            found.push(Implied { change: directory, within: open });
        }
    }
    found.sort_by_key(|implied| implied.change);
    found
}

/// A new directory is needed by the first thing in it; one that goes must wait for the last.
#[must_use]
pub fn verdict(kind: ChangeKind, within: impl Iterator<Item = Mark>) -> Option<Verdict> {
    let (mut accepted, mut rejected, mut open) = (0, 0, 0);
    for mark in within {
        match mark {
            Mark::Accepted => accepted += 1,
            // Part of a file is enough to need its directory, and enough to keep it.
            Mark::Partly if kind == ChangeKind::Add => accepted += 1,
            Mark::Partly | Mark::Rejected => rejected += 1,
            _ => open += 1,
        }
    }
    let takes = if kind == ChangeKind::Add { accepted > 0 } else { accepted > 0 && rejected + open == 0 };
    let leaves = if kind == ChangeKind::Add { open == 0 } else { rejected > 0 };
    match (takes, leaves) {
        (true, _) => Some(Verdict::Accepted),
        (false, true) => Some(Verdict::Rejected),
        (false, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    #[test]
    fn a_new_directory_follows_the_first_acceptance() {
        let of = |marks: &[Mark]| verdict(ChangeKind::Add, marks.iter().copied());
        assert_eq!(of(&[Mark::Undecided, Mark::Accepted]), Some(Verdict::Accepted));
        assert_eq!(of(&[Mark::Rejected, Mark::Partly]), Some(Verdict::Accepted));
        assert_eq!(of(&[Mark::Rejected, Mark::Rejected]), Some(Verdict::Rejected));
        assert_eq!(of(&[Mark::Rejected, Mark::Lapsed]), None);
    }

    #[test]
    fn a_directory_goes_with_the_last_acceptance() {
        let of = |marks: &[Mark]| verdict(ChangeKind::Delete, marks.iter().copied());
        assert_eq!(of(&[Mark::Accepted, Mark::Accepted]), Some(Verdict::Accepted));
        assert_eq!(of(&[Mark::Accepted, Mark::Undecided]), None);
        assert_eq!(of(&[Mark::Accepted, Mark::Rejected]), Some(Verdict::Rejected));
    }

    #[test]
    fn directories_with_something_in_them_are_implied() {
        let changes = sample::changes(&["M d", "A d/new", "A d/new/file", "A empty"]);
        let mut facts = sample::facts(&changes, &["d", "d/new", "empty"]);
        let implied = find(&changes, &mut facts);
        assert_eq!(implied.iter().map(|i| (i.change, i.within.clone())).collect::<Vec<_>>(), [(1, vec![2])]);
        assert_eq!(facts.iter().map(|f| f.is_implied).collect::<Vec<_>>(), [false, true, false, false]);
    }
}
