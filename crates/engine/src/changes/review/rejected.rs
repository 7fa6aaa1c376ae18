//! Hunks that were rejected one by one. A hunk is known by its lines and those around it, not by its number or place: what becomes
//! of the rest of the file moves it and is no answer to it.

use std::collections::BTreeSet;
use std::path::Path;

use whatif_diff::text::Content;
use whatif_diff::{Change, digest};
use whatif_patch::{Hunk, LineKind};

use super::{Review, Verdict};
use crate::merge::CONTEXT_LINES;

/// Which hunks of a change, as it is now, were rejected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RejectedHunks {
    /// As `apply --hunks` counts them.
    pub numbers: BTreeSet<usize>,
    /// Of all hunks.
    pub count: usize,
}

impl RejectedHunks {
    /// Finds those with these lines again.
    pub(super) fn found(change: &Change, lines: &[String]) -> Self {
        let all = hunks(change);
        let numbers = (1..).zip(&all).filter(|(_, hunk)| lines.contains(hunk)).map(|(number, _)| number).collect();
        Self { numbers, count: all.len() }
    }

    /// What they are found again by.
    pub(super) fn by_lines(&self, change: &Change) -> Vec<String> {
        (1..).zip(hunks(change)).filter(|(number, _)| self.numbers.contains(number)).map(|(_, hunk)| hunk).collect()
    }

    /// The other hunks.
    #[must_use]
    pub fn others(&self) -> Vec<usize> {
        (1..=self.count).filter(|number| !self.numbers.contains(number)).collect()
    }
}

impl Review {
    /// The hunks of a path that were rejected one by one; `None` if no hunk ever was.
    #[must_use]
    pub fn rejected_hunks(&self, path: &Path) -> Option<&RejectedHunks> {
        self.rejected.get(path)
    }

    /// Whether some hunks were taken or taken back, and every one that is left was rejected.
    pub(super) fn has_only_rejected_hunks(&self, path: &Path) -> bool {
        let is_in_part = self.decisions.get(path).is_some_and(|decision| matches!(decision.verdict, Verdict::Hunks(_)));
        let is_left = |hunks: &RejectedHunks| !hunks.numbers.is_empty() && hunks.others().is_empty();
        is_in_part && self.rejected.get(path).is_some_and(is_left)
    }

    /// Whether taking this path takes what was rejected. `in_part`: only hunks of it, by their numbers.
    pub(crate) fn has_rejected(&self, path: &Path, in_part: bool) -> bool {
        let has_rejected_hunk = || self.rejected_hunks(path).is_some_and(|hunks| !hunks.numbers.is_empty());
        self.verdict(path) == Some(&Verdict::Rejected) || (!in_part && has_rejected_hunk())
    }
}

fn hunks(change: &Change) -> Vec<String> {
    let Content::Text { before, after } = change.content() else { return Vec::new() };
    whatif_patch::hunks(&before, &after, CONTEXT_LINES).iter().map(by_lines).collect()
}

fn by_lines(hunk: &Hunk) -> String {
    let mut text = Vec::new();
    for line in &hunk.lines {
        let side = match line.kind {
            LineKind::Context => b' ',
            LineKind::Added => b'+',
            LineKind::Removed => b'-',
        };
        text.push(side);
        text.extend_from_slice(&line.text);
        // The last line of a file may end without one.
        if !line.text.ends_with(b"\n") {
            text.extend_from_slice(b"\n\\\n");
        }
    }
    digest::of_bytes(&text)
}
