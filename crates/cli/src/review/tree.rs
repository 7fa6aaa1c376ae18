//! The changes as a tree: groups, directories, files. Made once for a change set.
//!
//! Nodes stand in the order they are shown in, parents first, so a subtree is a range.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};

use whatif_engine::{Change, shown_path};

use super::decisions::{Decisions, Tally};
use super::facts::{Facts, Group};

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Item {
    Group,
    /// With its path, by which it is found again in another tree.
    Directory(PathBuf),
    /// By its number in the change set.
    Change(usize),
}

#[derive(Debug)]
pub struct Node {
    pub item: Item,
    pub group: Group,
    pub label: String,
    pub depth: usize,
    pub parent: Option<usize>,
    /// The first node that is not beneath this one.
    pub end: usize,
    /// Changes beneath it, and their size.
    pub files: usize,
    pub bytes: u64,
    pub tally: Tally,
}

#[derive(Debug, Default)]
pub struct Tree {
    pub nodes: Vec<Node>,
}

/// One change on its way into the tree.
struct Entry<'a> {
    change: usize,
    parts: Vec<&'a OsStr>,
    /// The first part is not one of the path.
    is_of_packages: bool,
    is_directory: bool,
    bytes: u64,
}

impl Tree {
    #[must_use]
    pub fn new(changes: &[Change], facts: &[Facts], project: &Path) -> Self {
        let mut tree = Self::default();
        for group in Group::ALL {
            let members = (0..changes.len()).filter(|i| facts[*i].group == group && !facts[*i].is_implied);
            let mut entries: Vec<Entry> = members.map(|i| entry(i, &changes[i], &facts[i], project)).collect();
            if entries.is_empty() {
                continue;
            }
            entries.sort_by(|a, b| a.parts.cmp(&b.parts));
            let at = tree.push(Item::Group, group, group.title().to_owned(), None);
            tree.fill(&entries, 0, at);
            tree.close(at);
        }
        tree
    }

    /// Counts decisions anew, for every node.
    pub fn count(&mut self, decisions: &Decisions) {
        for index in (0..self.nodes.len()).rev() {
            let mut tally = Tally::default();
            if let Item::Change(change) = self.nodes[index].item {
                tally.count(decisions.mark(change));
            }
            let mut child = index + 1;
            while child < self.nodes[index].end {
                tally.add(self.nodes[child].tally);
                child = self.nodes[child].end;
            }
            self.nodes[index].tally = tally;
        }
    }

    /// The changes at and beneath a node.
    #[must_use]
    pub fn changes_in(&self, node: usize) -> Vec<usize> {
        let nodes = self.nodes.get(node).map_or(&[][..], |n| &self.nodes[node..n.end]);
        nodes.iter().filter_map(Node::change).collect()
    }

    /// Everything above this entry from `level` on is open; adds what is beneath.
    fn fill(&mut self, entries: &[Entry], level: usize, parent: usize) {
        let mut rest = entries;
        while let Some(first) = rest.first() {
            let name = first.parts.get(level);
            let (run, others) = rest.split_at(rest.partition_point(|e| e.parts.get(level) == name));
            rest = others;
            let last = &run[run.len() - 1];
            let is_title = level == 0 && first.is_of_packages;
            if run.len() == 1 && !is_title {
                // One chain is one line, down to its only file.
                let parts = first.parts.get(level..).unwrap_or_default();
                let label = if parts.is_empty() { "./".to_owned() } else { joined(parts, first.is_directory) };
                self.leaf(first, label, parent);
                continue;
            }
            let common = match is_title {
                true => 1,
                false => first.parts.iter().zip(&last.parts).take_while(|(a, b)| a == b).count(),
            };
            let path: PathBuf = first.parts[..common].iter().collect();
            let label = joined(&first.parts[level..common], !is_title);
            let at = self.push(Item::Directory(path), self.nodes[parent].group, label, Some(parent));
            self.fill(run, common, at);
            self.close(at);
        }
    }

    fn leaf(&mut self, entry: &Entry, label: String, parent: usize) {
        let at = self.push(Item::Change(entry.change), self.nodes[parent].group, label, Some(parent));
        (self.nodes[at].files, self.nodes[at].bytes) = (1, entry.bytes);
    }

    fn push(&mut self, item: Item, group: Group, label: String, parent: Option<usize>) -> usize {
        let depth = parent.map_or(0, |p| self.nodes[p].depth + 1);
        let end = self.nodes.len() + 1;
        self.nodes.push(Node { item, group, label, depth, parent, end, files: 0, bytes: 0, tally: Tally::default() });
        end - 1
    }

    fn close(&mut self, at: usize) {
        self.nodes[at].end = self.nodes.len();
        let mut child = at + 1;
        while child < self.nodes.len() {
            let (files, bytes) = (self.nodes[child].files, self.nodes[child].bytes);
            self.nodes[at].files += files;
            self.nodes[at].bytes += bytes;
            child = self.nodes[child].end;
        }
    }
}

impl Node {
    #[must_use]
    pub fn change(&self) -> Option<usize> {
        match self.item {
            Item::Change(change) => Some(change),
            _ => None,
        }
    }
}

fn entry<'a>(index: usize, change: &'a Change, facts: &'a Facts, project: &Path) -> Entry<'a> {
    // What package managers brought is one directory for each of them.
    let packages = facts.packages.as_deref().map(OsStr::new);
    let parts = shown_path(&change.path, project).components().map(|c| match c {
        // So that what is outside starts with a slash when joined.
        Component::RootDir => OsStr::new(""),
        other => other.as_os_str(),
    });
    Entry {
        change: index,
        is_of_packages: packages.is_some(),
        parts: packages.into_iter().chain(parts).collect(),
        is_directory: facts.is_directory,
        bytes: facts.bytes,
    }
}

fn joined(parts: &[&OsStr], is_directory: bool) -> String {
    let names: Vec<String> = parts.iter().map(|p| visible(p.as_bytes())).collect();
    format!("{}{}", names.join("/"), if is_directory { "/" } else { "" })
}

/// A name or path as it may be shown.
#[must_use]
pub fn visible(name: &[u8]) -> String {
    whatif_patch::escape(name).replace('\t', "\\t")
}

#[cfg(test)]
mod tests {
    use super::super::sample;
    use super::*;

    fn shown(changes: &[Change], directories: &[&str]) -> Vec<String> {
        let mut facts = sample::facts(changes, directories);
        let _ = super::super::implied::find(changes, &mut facts);
        let tree = Tree::new(changes, &facts, Path::new(sample::PROJECT));
        tree.nodes.iter().map(|n| format!("{}{}", "  ".repeat(n.depth), n.label)).collect()
    }

    #[test]
    fn chains_are_one_line() {
        let changes = sample::changes(&["M a/b/c/one", "M a/b/c/two", "M a/b/d/e/only", "M top"]);
        assert_eq!(shown(&changes, &[]), ["changes", "  a/b/", "    c/", "      one", "      two", "    d/e/only", "  top"]);
    }

    #[test]
    fn groups_in_their_order() {
        let mut changes = sample::changes(&["M /etc/hosts", "A build.rs", "M plain", "A target/x", "A target/y"]);
        changes[1].flags.push(whatif_engine::Flag::HostExecuted);
        changes[3].ignored = true;
        changes[4].ignored = true;
        let expected = [
            "needs your approval",
            "  build.rs",
            "changes",
            "  plain",
            "ignored",
            "  target/",
            "    x",
            "    y",
            "outside the project",
            "  /etc/hosts",
        ];
        assert_eq!(shown(&changes, &[]), expected);
    }

    #[test]
    fn a_directory_that_changed_itself_has_a_line_of_its_own() {
        let changes = sample::changes(&["m d", "A d/file", "A empty"]);
        assert_eq!(shown(&changes, &["d", "empty"]), ["changes", "  d/", "    ./", "    file", "  empty/"]);
    }

    #[test]
    fn what_belongs_to_packages_lies_together() {
        let changes = sample::changes(&["A /usr/bin/x", "A /usr/lib/y", "A /usr/lib/z", "M a"]);
        let mut facts = sample::facts(&changes, &[]);
        (1..3).for_each(|n| facts[n].packages = Some("apt: x 1".into()));
        let tree = Tree::new(&changes, &facts, Path::new(sample::PROJECT));
        let shown: Vec<String> = tree.nodes.iter().map(|n| format!("{}{}", "  ".repeat(n.depth), n.label)).collect();
        let expected =
            ["changes", "  a", "outside the project", "  /usr/bin/x", "  apt: x 1", "    /usr/lib/", "      y", "      z"];
        assert_eq!(shown, expected);
    }

    #[test]
    fn names_that_begin_alike_are_not_confused() {
        let changes = sample::changes(&["M a/x", "M a-b", "M a.txt", "M ab/x"]);
        assert_eq!(shown(&changes, &[]), ["changes", "  a/x", "  a-b", "  a.txt", "  ab/x"]);
    }

    #[test]
    fn names_cannot_move_the_cursor() {
        let changes = sample::changes(&["A evil\x1b[2J\n\u{202e}"]);
        assert_eq!(shown(&changes, &[])[1], "  evil\\x1b[2J\\n\\u{202e}");
    }

    #[test]
    fn counts_go_up() {
        let changes = sample::changes(&["M d/a", "M d/b", "M e"]);
        let mut facts = sample::facts(&changes, &[]);
        let mut decisions = Decisions::new(whatif_engine::changes::review::Review::default(), &changes, &mut facts);
        let mut tree = Tree::new(&changes, &facts, Path::new(sample::PROJECT));
        decisions.decide(&changes, &tree.changes_in(1), Some(&whatif_engine::changes::review::Verdict::Accepted));
        tree.count(&decisions);
        assert_eq!(tree.nodes[0].tally, Tally { accepted: 2, undecided: 1, ..Tally::default() });
        assert_eq!((tree.nodes[0].files, tree.nodes[1].files), (3, 2));
    }
}
