//! Edits with the lines around them, and choosing among them.

use std::ops::Range;

use crate::edits::{Edit, edits};
use crate::text::Text;

/// A group of edits with the lines around them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hunk {
    /// The first line, counted from 1; for no lines the line before, as in a unified diff.
    pub before_start: usize,
    pub before_lines: usize,
    /// Counted like `before_start`.
    pub after_start: usize,
    pub after_lines: usize,
    pub lines: Vec<HunkLine>,
}

/// One line of a hunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HunkLine {
    pub kind: LineKind,
    /// The line, with its terminator if it has one.
    pub text: Vec<u8>,
}

/// On which side a line of a hunk stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LineKind {
    /// On both.
    Context,
    /// Only after.
    Added,
    /// Only before.
    Removed,
}

/// The differences in groups, each with up to `context` common lines around it. Edits with no more than twice `context`
/// lines between them share a group.
pub fn hunks(before: &[u8], after: &[u8], context: usize) -> Vec<Hunk> {
    let edits = edits(before, after);
    let (old, new) = (Text::new(before), Text::new(after));
    groups(&edits, &old, &new, context).map(|group| group.hunk(&old, &new)).collect()
}

/// `before` with only the chosen hunks applied, named by their index in what [`hunks`] returns for the same arguments.
pub fn take_hunks(before: &[u8], after: &[u8], context: usize, chosen: &dyn Fn(usize) -> bool) -> Vec<u8> {
    let edits = edits(before, after);
    let (old, new) = (Text::new(before), Text::new(after));
    let mut taken = Vec::with_capacity(before.len().max(after.len()));
    let mut at = 0;
    let groups = groups(&edits, &old, &new, context).enumerate();
    for edit in groups.filter(|(index, _)| chosen(*index)).flat_map(|(_, group)| group.edits) {
        taken.extend_from_slice(old.cut(at..edit.before.start));
        taken.extend_from_slice(new.cut(edit.after.clone()));
        at = edit.before.end;
    }
    taken.extend_from_slice(old.cut(at..old.len()));
    taken
}

/// A hunk that still points into the texts.
pub(crate) struct Group<'e> {
    edits: &'e [Edit],
    before: Range<usize>,
    after: Range<usize>,
}

/// The edits in groups, as [`hunks`] describes them.
pub(crate) fn groups<'e>(edits: &'e [Edit], old: &Text, new: &Text, context: usize) -> impl Iterator<Item = Group<'e>> {
    let far = context.saturating_mul(2);
    let (old_len, new_len) = (old.len(), new.len());
    edits.chunk_by(move |one, next| next.before.start - one.before.end <= far).map(move |edits| {
        let (first, last) = (&edits[0], &edits[edits.len() - 1]);
        Group {
            edits,
            before: first.before.start.saturating_sub(context)..last.before.end.saturating_add(context).min(old_len),
            after: first.after.start.saturating_sub(context)..last.after.end.saturating_add(context).min(new_len),
        }
    })
}

impl Group<'_> {
    /// The start and the number of lines of each side, as a unified diff spells them.
    pub(crate) fn spans(&self) -> [(usize, usize); 2] {
        [&self.before, &self.after].map(|range| (range.start + usize::from(!range.is_empty()), range.len()))
    }

    pub(crate) fn each_line<'t>(&self, old: &Text<'t>, new: &Text<'t>, mut line: impl FnMut(LineKind, &'t [u8])) {
        let mut each = |kind, text: &Text<'t>, range: Range<usize>| range.for_each(|index| line(kind, text.line(index)));
        let mut at = self.before.start;
        for edit in self.edits {
            each(LineKind::Context, old, at..edit.before.start);
            each(LineKind::Removed, old, edit.before.clone());
            each(LineKind::Added, new, edit.after.clone());
            at = edit.before.end;
        }
        each(LineKind::Context, old, at..self.before.end);
    }

    fn hunk(&self, old: &Text, new: &Text) -> Hunk {
        let [(before_start, before_lines), (after_start, after_lines)] = self.spans();
        let mut lines = Vec::new();
        self.each_line(old, new, |kind, text| lines.push(HunkLine { kind, text: text.to_vec() }));
        Hunk { before_start, before_lines, after_start, after_lines, lines }
    }
}

#[cfg(test)]
mod tests;
