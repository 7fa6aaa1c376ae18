//! What the right pane shows of one change: notes, and hunks line by line. Nothing is wrapped or coloured here.

use std::ops::Range;
use std::path::Path;

use whatif_engine::changes::diff::CONTEXT_LINES;
use whatif_engine::{Change, Content, Kind};
use whatif_patch::{Hunk, HunkLine, LineKind};

use super::notes::{self, Note};
use super::theme::Tone;
use crate::output::bytes;

/// More than this is read only when asked for.
pub const LONGEST_UNASKED: u64 = 2 << 20;

/// Reads the two sides of a change.
pub type Reader = fn(&Change) -> Content;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    Note(Tone, String),
    /// Above the hunk of this number, counted from 0.
    Head(usize),
    Text(TextLine),
    /// The line before ends without a newline.
    Unended,
}

/// A line of a hunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextLine {
    pub hunk: usize,
    /// Within the hunk.
    pub index: usize,
    pub before: Option<usize>,
    pub after: Option<usize>,
    /// The line of the same hunk that it was, or became.
    pub partner: Option<usize>,
}

#[derive(Debug, Default)]
pub struct Document {
    pub lines: Vec<Line>,
    pub hunks: Vec<Hunk>,
    /// Where in `lines` each hunk begins.
    pub heads: Vec<usize>,
    /// There is content that was not read because it is long.
    pub is_postponed: bool,
}

impl Document {
    /// Notes alone.
    #[must_use]
    pub fn of_notes(notes: Vec<Note>) -> Self {
        let lines = notes.into_iter().map(|(tone, text)| Line::Note(tone, text)).collect();
        Self { lines, ..Self::default() }
    }

    #[must_use]
    pub fn of(change: &Change, conflict: Option<&str>, project: &Path, read: Reader, even_if_long: bool) -> Self {
        let mut notes = notes::of(change, conflict, project);
        let size = size(change);
        if size > LONGEST_UNASKED && !even_if_long {
            notes.push((Tone::Plain, format!("{}: enter reads it", bytes(size))));
            return Self { is_postponed: true, ..Self::of_notes(notes) };
        }
        let content = read(change);
        notes.extend(notes::of_content(&content));
        let mut document = Self::of_notes(notes);
        if let Content::Text { before, after } = content {
            document.add_hunks(whatif_patch::hunks(&before, &after, CONTEXT_LINES));
            // The target of a link has no newline, ever.
            if change.shown_kind() == Kind::Link {
                document.lines.retain(|line| *line != Line::Unended);
            }
        }
        document
    }

    #[must_use]
    pub fn text(&self, line: &TextLine) -> &HunkLine {
        &self.hunks[line.hunk].lines[line.index]
    }

    /// The words of a line that its partner does not have.
    #[must_use]
    pub fn words(&self, line: &TextLine) -> Vec<Range<usize>> {
        let Some(partner) = line.partner else { return Vec::new() };
        let lines = &self.hunks[line.hunk].lines;
        match lines[line.index].kind {
            LineKind::Removed => whatif_patch::words(&lines[line.index].text, &lines[partner].text).0,
            _ => whatif_patch::words(&lines[partner].text, &lines[line.index].text).1,
        }
    }

    /// The hunk a line belongs to, or the next one.
    #[must_use]
    pub fn hunk_at(&self, line: usize) -> usize {
        self.heads.partition_point(|head| *head <= line).saturating_sub(1)
    }

    /// The widest line number has this many digits.
    #[must_use]
    pub fn digits(&self) -> usize {
        let last = self.hunks.last().map_or(0, |h| (h.before_start + h.before_lines).max(h.after_start + h.after_lines));
        last.max(1).ilog10() as usize + 1
    }

    fn add_hunks(&mut self, hunks: Vec<Hunk>) {
        for (number, hunk) in hunks.iter().enumerate() {
            self.lines.push(Line::Note(Tone::Plain, String::new()));
            self.heads.push(self.lines.len());
            self.lines.push(Line::Head(number));
            self.add_lines(number, hunk);
        }
        self.hunks = hunks;
    }

    fn add_lines(&mut self, number: usize, hunk: &Hunk) {
        let partners = partners(&hunk.lines);
        let (mut before, mut after) = (hunk.before_start, hunk.after_start);
        for (index, line) in hunk.lines.iter().enumerate() {
            let (in_before, in_after) = (line.kind != LineKind::Added, line.kind != LineKind::Removed);
            self.lines.push(Line::Text(TextLine {
                hunk: number,
                index,
                before: in_before.then_some(before),
                after: in_after.then_some(after),
                partner: partners[index],
            }));
            before += usize::from(in_before);
            after += usize::from(in_after);
            if !line.text.ends_with(b"\n") {
                self.lines.push(Line::Unended);
            }
        }
    }
}

/// Runs of removed and added lines of the same length are the same lines, changed.
fn partners(lines: &[HunkLine]) -> Vec<Option<usize>> {
    let mut partners = vec![None; lines.len()];
    let run = |from: usize, kind: LineKind| lines[from..].iter().take_while(|l| l.kind == kind).count();
    let mut at = 0;
    while at < lines.len() {
        let removed = run(at, LineKind::Removed);
        let added = run(at + removed, LineKind::Added);
        if removed == added {
            for index in at..at + removed {
                (partners[index], partners[index + removed]) = (Some(index + removed), Some(index));
            }
        }
        at += (removed + added).max(1);
    }
    partners
}

/// Of both sides together.
#[must_use]
pub fn size(change: &Change) -> u64 {
    change.before.iter().chain(&change.after).filter(|s| s.node.kind == Kind::File).map(|s| s.node.size).sum()
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    fn document() -> Document {
        Document::of(&sample::changes(&["M f"])[0], None, Path::new(sample::PROJECT), sample::content, false)
    }

    #[test]
    fn hunks_have_heads_and_numbers() {
        let document = document();
        assert_eq!(document.hunks.len(), 2);
        assert!(document.heads.iter().all(|h| matches!(document.lines[*h], Line::Head(_))));
        let Line::Text(removed) = document.lines[document.heads[0] + 3] else { panic!("{:?}", document.lines) };
        assert_eq!((removed.before, removed.after, removed.partner), (Some(3), None, Some(3)));
        assert_eq!(document.digits(), 2);
        assert_eq!(document.hunk_at(document.heads[1] + 1), 1);
        assert_eq!(document.hunk_at(0), 0);
    }

    #[test]
    fn changed_words_are_found_on_both_sides() {
        let document = document();
        let texts: Vec<&TextLine> =
            document.lines.iter().filter_map(|l| if let Line::Text(t) = l { Some(t) } else { None }).collect();
        assert_eq!(document.words(texts[2]), std::slice::from_ref(&(5..6)), "3");
        assert_eq!(document.words(texts[3]), std::slice::from_ref(&(5..10)), "three");
        // One line became two: there is no telling which is which.
        assert!(texts.iter().filter(|t| t.hunk == 1).all(|t| t.partner.is_none()));
    }

    #[test]
    fn a_missing_newline_is_said() {
        let read: Reader = |_| Content::Text { before: Vec::new(), after: b"a".to_vec() };
        let document = Document::of(&sample::changes(&["A f"])[0], None, Path::new(sample::PROJECT), read, false);
        assert_eq!(document.lines.last(), Some(&Line::Unended));
    }

    #[test]
    fn binary_files_have_no_hunks() {
        let document =
            Document::of(&sample::changes(&["A f.png"])[0], None, Path::new(sample::PROJECT), |_| Content::Binary, false);
        assert!(document.hunks.is_empty());
        assert!(document.lines.iter().any(|l| matches!(l, Line::Note(_, text) if text.contains("binary"))));
    }
}
