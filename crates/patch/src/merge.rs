//! Three versions of a text made into one.

use std::ops::Range;

use crate::conflict::{Conflicted, Region};
use crate::edits::{Edit, Placement, placed_edits};
use crate::text::Text;

/// What came of a merge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Merge {
    /// The merged text.
    Clean(Vec<u8>),
    /// Somebody has to decide.
    Conflicted(Conflicted),
}

/// Merges what `ours` and `theirs` each made of `base`, line by line. The same change on both sides is taken once; different
/// changes that overlap or touch are a conflict, as in git.
///
/// Where lines repeat, a change can be read in more than one way. There git may rarely find a conflict that is none here, or
/// the reverse, as git's own algorithms do among themselves.
pub fn merge(base: &[u8], ours: &[u8], theirs: &[u8]) -> Merge {
    if ours == theirs || theirs == base {
        return Merge::Clean(ours.to_vec());
    }
    if ours == base {
        return Merge::Clean(theirs.to_vec());
    }
    let left = placed_edits(base, ours, Placement::Last);
    let right = placed_edits(base, theirs, Placement::Last);
    let texts = Texts { base: Text::new(base), ours: Text::new(ours), theirs: Text::new(theirs) };

    let mut settled = Vec::with_capacity(ours.len().max(theirs.len()));
    let mut found = Conflicted { regions: Vec::new(), settled: Vec::new(), crlf: Vec::new() };
    let mut at = 0;
    for place in (Places { left: &left, right: &right, at: Position::default() }) {
        settled.extend_from_slice(texts.base.cut(at..place.base.start));
        at = place.base.end;
        match texts.decide(&place) {
            Some(text) => settled.extend_from_slice(text),
            None => {
                found.regions.push(texts.region(&place));
                found.crlf.push(texts.is_crlf_at(&place));
                found.settled.push(std::mem::take(&mut settled));
            }
        }
    }
    settled.extend_from_slice(texts.base.cut(at..texts.base.len()));

    if found.regions.is_empty() {
        return Merge::Clean(settled);
    }
    found.settled.push(settled);
    Merge::Conflicted(found)
}

/// The line ranges of one place in all three versions.
struct Place {
    base: Range<usize>,
    ours: Range<usize>,
    theirs: Range<usize>,
    changed_by: ChangedBy,
}

enum ChangedBy {
    Us,
    Them,
    Both,
}

/// Lines that stand at the same place of the three versions.
#[derive(Default)]
struct Position {
    base: usize,
    ours: usize,
    theirs: usize,
}

/// Puts edits of the two sides together as long as they touch.
struct Places<'e> {
    left: &'e [Edit],
    right: &'e [Edit],
    at: Position,
}

impl Iterator for Places<'_> {
    type Item = Place;

    fn next(&mut self) -> Option<Place> {
        let start = [self.left, self.right].into_iter().filter_map(|edits| edits.first()).map(|edit| edit.before.start).min()?;
        let mut end = start;
        let (mut left, mut right) = (0, 0);
        loop {
            if let Some(edit) = self.left.get(left).filter(|edit| edit.before.start <= end) {
                end = end.max(edit.before.end);
                left += 1;
            } else if let Some(edit) = self.right.get(right).filter(|edit| edit.before.start <= end) {
                end = end.max(edit.before.end);
                right += 1;
            } else {
                break;
            }
        }
        let lead = start - self.at.base;
        let ours = side_range(&self.left[..left], self.at.ours + lead, start..end);
        let theirs = side_range(&self.right[..right], self.at.theirs + lead, start..end);
        self.left = &self.left[left..];
        self.right = &self.right[right..];
        self.at = Position { base: end, ours: ours.end, theirs: theirs.end };
        let changed_by = match (left, right) {
            (_, 0) => ChangedBy::Us,
            (0, _) => ChangedBy::Them,
            _ => ChangedBy::Both,
        };
        Some(Place { base: start..end, ours, theirs, changed_by })
    }
}

/// Where a range of base lines is on a side that has these edits in it.
fn side_range(edits: &[Edit], start: usize, base: Range<usize>) -> Range<usize> {
    match edits.last() {
        Some(last) => start..last.after.end + (base.end - last.before.end),
        None => start..start + base.len(),
    }
}

struct Texts<'a> {
    base: Text<'a>,
    ours: Text<'a>,
    theirs: Text<'a>,
}

impl<'a> Texts<'a> {
    /// What the merge has at a place, unless the sides disagree.
    fn decide(&self, place: &Place) -> Option<&'a [u8]> {
        let (ours, theirs) = (self.ours.cut(place.ours.clone()), self.theirs.cut(place.theirs.clone()));
        match place.changed_by {
            ChangedBy::Us => Some(ours),
            ChangedBy::Them => Some(theirs),
            ChangedBy::Both => (ours == theirs).then_some(ours),
        }
    }

    fn region(&self, place: &Place) -> Region {
        Region {
            base: self.base.cut(place.base.clone()).to_vec(),
            ours: self.ours.cut(place.ours.clone()).to_vec(),
            theirs: self.theirs.cut(place.theirs.clone()).to_vec(),
            ours_start: place.ours.start + 1,
        }
    }

    /// Whether markers end in CRLF. Git's rule: the base must begin so, and no side may show otherwise before the place.
    fn is_crlf_at(&self, place: &Place) -> bool {
        let ours = is_crlf(&self.ours, place.ours.start.saturating_sub(1));
        let theirs = is_crlf(&self.theirs, place.theirs.start.saturating_sub(1));
        ours != Some(false) && theirs != Some(false) && is_crlf(&self.base, 0) == Some(true)
    }
}

/// Whether a line ends in CRLF; a last line without an end is judged by the one before.
fn is_crlf(text: &Text, index: usize) -> Option<bool> {
    let line = (index < text.len()).then(|| text.line(index))?;
    if line.ends_with(b"\n") {
        return Some(line.ends_with(b"\r\n"));
    }
    let previous = index.checked_sub(1)?;
    Some(text.line(previous).ends_with(b"\r\n"))
}

#[cfg(test)]
mod tests;
