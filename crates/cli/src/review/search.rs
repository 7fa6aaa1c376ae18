//! Looking for a text in the names of files and in their hunks, a few files at a time so that keys are still heard.

use std::ops::Range;
use std::path::Path;

use whatif_engine::{Change, Content};

use super::document::{self, Document, LONGEST_UNASKED, Line, Reader};
use super::tree::{Node, Tree};

/// A text; if it is in lower case, either case will do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Query {
    text: Vec<u8>,
    any_case: bool,
}

impl Query {
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let any_case = !text.bytes().any(|b| b.is_ascii_uppercase());
        (!text.is_empty()).then(|| Self { text: text.as_bytes().to_vec(), any_case })
    }

    /// Where it is found.
    #[must_use]
    pub fn ranges(&self, line: &[u8]) -> Vec<Range<usize>> {
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for (at, window) in line.windows(self.text.len()).enumerate() {
            let is_free = ranges.last().is_none_or(|r| r.end <= at);
            if is_free && self.is(window) {
                ranges.push(at..at + self.text.len());
            }
        }
        ranges
    }

    #[must_use]
    pub fn is_in(&self, text: &[u8]) -> bool {
        text.windows(self.text.len()).any(|w| self.is(w))
    }

    fn is(&self, window: &[u8]) -> bool {
        if self.any_case { window.eq_ignore_ascii_case(&self.text) } else { window == self.text }
    }
}

/// A place in a file, in the order they are visited.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Spot {
    Start,
    Name,
    Line(usize),
    End,
}

/// A search under way.
#[derive(Clone, Debug)]
pub struct Hunt {
    pub query: Query,
    forward: bool,
    /// The node to look at next, and after (or before) which spot.
    node: usize,
    after: Spot,
    /// Nodes not looked at yet; the first is looked at twice, before and after where the search began.
    left: usize,
}

/// What came of looking at one more node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    Found(usize, Spot),
    NotYet,
    Nowhere,
}

/// What is searched.
#[derive(Debug)]
pub struct Ground<'a> {
    pub tree: &'a Tree,
    pub changes: &'a [Change],
    pub project: &'a Path,
    pub read: Reader,
}

impl Hunt {
    #[must_use]
    pub fn new(query: Query, forward: bool, node: usize, after: Spot, nodes: usize) -> Self {
        Self { query, forward, node, after, left: nodes + 1 }
    }

    /// How much has been looked at, in per cent.
    #[must_use]
    pub fn progress(&self, nodes: usize) -> usize {
        100 - (self.left * 100 / (nodes + 1)).min(100)
    }

    /// Looks at one node.
    pub fn step(&mut self, ground: &Ground) -> Step {
        if self.left == 0 || ground.tree.nodes.is_empty() {
            return Step::Nowhere;
        }
        self.left -= 1;
        let spots = spots(&self.query, ground, &ground.tree.nodes[self.node]);
        let found = if self.forward {
            spots.into_iter().find(|s| *s > self.after)
        } else {
            spots.into_iter().rev().find(|s| *s < self.after)
        };
        if let Some(spot) = found {
            return Step::Found(self.node, spot);
        }
        let count = ground.tree.nodes.len();
        (self.node, self.after) =
            if self.forward { ((self.node + 1) % count, Spot::Start) } else { ((self.node + count - 1) % count, Spot::End) };
        Step::NotYet
    }
}

fn spots(query: &Query, ground: &Ground, node: &Node) -> Vec<Spot> {
    let Some(index) = node.change() else { return Vec::new() };
    let change = &ground.changes[index];
    let mut spots = Vec::new();
    // The path from where the list shows it; what is above has been searched with its first file.
    if query.is_in(whatif_engine::shown_path(&change.path, ground.project).as_os_str().as_encoded_bytes()) {
        spots.push(Spot::Name);
    }
    if document::size(change) <= LONGEST_UNASKED && may_hold(query, &(ground.read)(change)) {
        let document = Document::of(change, None, ground.project, ground.read, false);
        let holds = |line: &Line| matches!(line, Line::Text(text) if query.is_in(&document.text(text).text));
        spots.extend(document.lines.iter().enumerate().filter(|(_, l)| holds(l)).map(|(at, _)| Spot::Line(at)));
    }
    spots
}

/// Comparing two texts takes longer than searching them.
fn may_hold(query: &Query, content: &Content) -> bool {
    matches!(content, Content::Text { before, after } if query.is_in(before) || query.is_in(after))
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    fn hunt(query: &str, forward: bool, node: usize, after: Spot) -> Step {
        let changes = sample::changes(&["M Alpha", "M beta", "M gamma"]);
        let tree = Tree::new(&changes, &sample::facts(&changes, &[]), Path::new(sample::PROJECT));
        let ground = Ground { tree: &tree, changes: &changes, project: Path::new(sample::PROJECT), read: sample::content };
        let mut hunt = Hunt::new(Query::new(query).unwrap(), forward, node, after, tree.nodes.len());
        loop {
            match hunt.step(&ground) {
                Step::NotYet => {}
                end => return end,
            }
        }
    }

    #[test]
    fn lower_case_finds_either() {
        assert_eq!(Query::new("ab").unwrap().ranges(b"xAB ab"), [1..3, 4..6]);
        assert_eq!(Query::new("Ab").unwrap().ranges(b"xAB Ab"), std::slice::from_ref(&(4..6)));
        assert_eq!(Query::new("aa").unwrap().ranges(b"aaa"), std::slice::from_ref(&(0..2)));
        assert_eq!(Query::new(""), None);
    }

    #[test]
    fn names_are_found_in_both_directions_and_around_the_end() {
        // Node 0 is the title of the group.
        assert_eq!(hunt("beta", true, 1, Spot::Start), Step::Found(2, Spot::Name));
        assert_eq!(hunt("alpha", true, 2, Spot::Start), Step::Found(1, Spot::Name));
        assert_eq!(hunt("gamma", false, 1, Spot::End), Step::Found(3, Spot::Name));
        assert_eq!(hunt("alpha", true, 1, Spot::Name), Step::Found(1, Spot::Name), "all the way round");
    }

    #[test]
    fn text_is_found_line_by_line() {
        let Step::Found(1, Spot::Line(first)) = hunt("three", true, 1, Spot::Start) else { panic!() };
        assert_eq!(hunt("three", true, 1, Spot::Line(first)), Step::Found(2, Spot::Line(first)));
        assert_eq!(hunt("nowhere to be found", true, 1, Spot::Start), Step::Nowhere);
        assert_eq!(hunt("line 15", true, 1, Spot::Start), Step::Nowhere, "it is in no hunk");
    }
}
