//! The list of files: which lines of the tree are shown, and the one that is chosen.

use std::collections::HashSet;
use std::path::PathBuf;

use super::facts::Group;
use super::tree::{Item, Tree};

/// Directories with more in them than this are folded at first.
const MOST_UNFOLDED: usize = 400;
/// Lines kept in view around the cursor.
const MARGIN: usize = 2;

#[derive(Debug, Default)]
pub struct List {
    /// The nodes that are shown.
    pub rows: Vec<usize>,
    folded: Vec<bool>,
    pub cursor: usize,
    pub top: usize,
    pub height: usize,
}

/// What is remembered of a list when its tree is made anew.
#[derive(Debug, Default)]
pub struct Place {
    known: HashSet<(Group, PathBuf)>,
    folded: HashSet<(Group, PathBuf)>,
    cursor: usize,
}

impl List {
    #[must_use]
    pub fn new(tree: &Tree) -> Self {
        let is_folded = |n: &super::tree::Node| match n.item {
            Item::Group => n.group == Group::Ignored || (n.group == Group::Outside && n.files > MOST_UNFOLDED),
            Item::Directory(_) => n.group == Group::Ignored || n.files > MOST_UNFOLDED,
            Item::Change(_) => false,
        };
        let mut list = Self { folded: tree.nodes.iter().map(is_folded).collect(), height: 1, ..Self::default() };
        list.show(tree);
        // The first file, not the title above it.
        list.cursor = list.rows.iter().position(|n| tree.nodes[*n].change().is_some()).unwrap_or(0);
        list
    }

    #[must_use]
    pub fn place(&self, tree: &Tree) -> Place {
        let mut place = Place { cursor: self.cursor, ..Place::default() };
        for (index, key) in tree.nodes.iter().enumerate().filter_map(|(i, n)| Some((i, key(n)?))) {
            if self.folded[index] {
                place.folded.insert(key.clone());
            }
            place.known.insert(key);
        }
        place
    }

    /// Folds what was folded before; the cursor stays near where it was.
    pub fn restore(&mut self, tree: &Tree, place: &Place) {
        for (index, key) in tree.nodes.iter().enumerate().filter_map(|(i, n)| Some((i, key(n)?))) {
            if place.known.contains(&key) {
                self.folded[index] = place.folded.contains(&key);
            }
        }
        self.show(tree);
        self.cursor = place.cursor.min(self.rows.len().saturating_sub(1));
        self.follow();
    }

    #[must_use]
    pub fn selected(&self) -> Option<usize> {
        self.rows.get(self.cursor).copied()
    }

    #[must_use]
    pub fn is_folded(&self, node: usize) -> bool {
        self.folded[node]
    }

    pub fn move_by(&mut self, lines: isize) {
        self.go_to(self.cursor.saturating_add_signed(lines));
    }

    pub fn go_to(&mut self, row: usize) {
        self.cursor = row.min(self.rows.len().saturating_sub(1));
        self.follow();
    }

    /// Goes to the next file below, if there is one in sight of the list.
    pub fn go_to_next_file(&mut self, tree: &Tree) {
        let below = self.rows.iter().enumerate().skip(self.cursor + 1);
        let found = below.filter(|(_, node)| tree.nodes[**node].change().is_some()).map(|(row, _)| row).next();
        self.go_to(found.unwrap_or(self.cursor));
    }

    pub fn page(&self) -> isize {
        self.height.saturating_sub(1).max(1) as isize
    }

    /// Scrolls without moving the cursor more than needed.
    pub fn scroll(&mut self, lines: isize) {
        self.top = self.top.saturating_add_signed(lines).min(self.rows.len().saturating_sub(self.height));
        let last = (self.top + self.height).saturating_sub(1).min(self.rows.len().saturating_sub(1));
        self.cursor = self.cursor.clamp(self.top.min(last), last);
    }

    /// Folds or unfolds the chosen line; says whether there was anything to fold.
    pub fn fold(&mut self, tree: &Tree, wanted: Option<bool>) -> bool {
        let Some(node) = self.selected().filter(|n| tree.nodes[*n].change().is_none()) else { return false };
        let wanted = wanted.unwrap_or(!self.folded[node]);
        if self.folded[node] == wanted {
            return false;
        }
        self.folded[node] = wanted;
        self.show(tree);
        self.follow();
        true
    }

    pub fn go_to_parent(&mut self, tree: &Tree) {
        if let Some(parent) = self.selected().and_then(|n| tree.nodes[n].parent) {
            self.reveal(tree, parent);
        }
    }

    /// Chooses a node, and unfolds what hides it.
    pub fn reveal(&mut self, tree: &Tree, node: usize) {
        let mut above = tree.nodes[node].parent;
        let mut was_hidden = false;
        while let Some(at) = above {
            was_hidden |= std::mem::take(&mut self.folded[at]);
            above = tree.nodes[at].parent;
        }
        if was_hidden {
            self.show(tree);
        }
        if let Ok(row) = self.rows.binary_search(&node) {
            self.go_to(row);
        }
    }

    /// Chooses the next line that satisfies, from the one after the cursor on; folded ones count.
    pub fn seek(&mut self, tree: &Tree, forward: bool, wanted: impl Fn(usize) -> bool) -> bool {
        let (count, at) = (tree.nodes.len(), self.selected().unwrap_or(0));
        let found =
            (1..=count).map(|step| if forward { (at + step) % count } else { (at + count - step) % count }).find(|n| wanted(*n));
        if let Some(node) = found {
            self.reveal(tree, node);
        }
        found.is_some()
    }

    pub fn resize(&mut self, height: usize) {
        self.height = height.max(1);
        self.follow();
    }

    fn show(&mut self, tree: &Tree) {
        let chosen = self.selected();
        self.rows.clear();
        let mut at = 0;
        while let Some(node) = tree.nodes.get(at) {
            self.rows.push(at);
            at = if self.folded[at] { node.end } else { at + 1 };
        }
        if let Some(chosen) = chosen {
            // If it is hidden now, what hides it is the last one before.
            self.cursor = self.rows.partition_point(|n| *n <= chosen).saturating_sub(1);
        }
    }

    fn follow(&mut self) {
        let margin = MARGIN.min(self.height.saturating_sub(1) / 2);
        let (first, last) = (self.cursor.saturating_sub(margin), self.cursor + margin);
        self.top = self.top.min(first).max((last + 1).saturating_sub(self.height));
        self.top = self.top.min(self.rows.len().saturating_sub(self.height));
    }
}

fn key(node: &super::tree::Node) -> Option<(Group, PathBuf)> {
    match &node.item {
        Item::Group => Some((node.group, PathBuf::new())),
        Item::Directory(path) => Some((node.group, path.clone())),
        Item::Change(_) => None,
    }
}

#[cfg(test)]
#[path = "list_tests.rs"]
mod tests;
