//! The review as it is at one moment, and what each key makes of it. Knows no terminal and no engine.

use std::collections::HashMap;
use std::path::PathBuf;
use std::rc::Rc;

use whatif_engine::changes::review::Review;
use whatif_engine::{Change, Packages, shown_path};

use super::counts::Counts;
use super::decisions::{Decisions, Mark};
use super::document::{Document, Reader};
use super::facts::{Facts, Group};
use super::keys::Action;
use super::list::List;
use super::prompt::Prompt;
use super::search::{Hunt, Query};
use super::theme::Tone;
use super::tree::{Item, Tree};
use super::viewer::Viewer;
use crate::changes::packages;
use crate::output::{bytes, counted};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pane {
    Files,
    Hunks,
}

/// What the caller has to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    Nothing,
    Reload,
    Suspend,
    Apply,
    Quit,
}

/// What is reviewed.
#[derive(Debug)]
pub struct Subject {
    /// The name of the sandbox.
    pub name: String,
    pub project: PathBuf,
    /// Its processes may go on changing files.
    pub is_alive: bool,
    pub changes: Vec<Change>,
    /// What package managers installed and removed.
    pub packages: Packages,
    /// Where an apply has to be told which side counts, and why.
    pub conflicts: HashMap<PathBuf, &'static str>,
}

#[derive(Debug)]
pub struct App {
    pub subject: Subject,
    pub facts: Vec<Facts>,
    pub tree: Tree,
    pub list: List,
    pub decisions: Decisions,
    pub viewer: Viewer,
    pub counts: Counts,
    pub pane: Pane,
    pub message: Option<(Tone, String)>,
    pub prompt: Option<Prompt>,
    pub query: Option<Query>,
    pub hunt: Option<Hunt>,
    pub help: bool,
    pub(super) read: Reader,
    /// Where the last search stopped.
    pub(super) found: Option<(usize, super::search::Spot)>,
    /// The node whose document is open.
    open: Option<usize>,
}

impl App {
    #[must_use]
    pub fn new(subject: Subject, review: Review, read: Reader) -> Self {
        let words: Vec<Rc<str>> = subject.packages.groups().iter().map(|group| packages::title(group).into()).collect();
        let packages_of = |change: &Change| words.get(subject.packages.around(&change.path)?).cloned();
        let facts = subject.changes.iter().map(|c| Facts { packages: packages_of(c), ..Facts::of(c) }).collect();
        Self::with_facts(subject, facts, review, read)
    }

    #[must_use]
    pub(super) fn with_facts(subject: Subject, mut facts: Vec<Facts>, review: Review, read: Reader) -> Self {
        let decisions = Decisions::new(review, &subject.changes, &mut facts);
        let mut tree = Tree::new(&subject.changes, &facts, &subject.project);
        tree.count(&decisions);
        let mut app = Self {
            list: List::new(&tree),
            counts: Counts::new(subject.changes.len()),
            viewer: Viewer::default(),
            pane: Pane::Files,
            message: None,
            prompt: None,
            query: None,
            hunt: None,
            help: false,
            found: None,
            open: None,
            subject,
            facts,
            tree,
            decisions,
            read,
        };
        app.show_selected();
        app
    }

    /// The change that is chosen, if it is one.
    #[must_use]
    pub fn chosen(&self) -> Option<usize> {
        self.list.selected().and_then(|n| self.tree.nodes[n].change())
    }

    /// Takes up a new look at the same sandbox, where the reader was.
    pub fn reload(&mut self, subject: Subject, mut review: Review) {
        let path = self.chosen().map(|c| self.subject.changes[c].path.clone());
        // A decision that lapsed stays so until it is made again, however often one looks.
        let before = &self.decisions.review().lapsed;
        let still = before.iter().filter(|p| review.verdict(p).is_none() && !review.lapsed.contains(*p)).cloned();
        let still: Vec<PathBuf> = still.collect();
        review.lapsed.extend(still);
        let lapsed = review.lapsed.len() as u64;
        let mut new = Self::new(subject, review, self.read);
        new.list.height = self.list.height;
        new.list.restore(&new.tree, &self.list.place(&self.tree));
        if let Some(node) = path.and_then(|p| new.node_of(&p)) {
            new.list.reveal(&new.tree, node);
        }
        (new.viewer.width, new.viewer.height) = (self.viewer.width, self.viewer.height);
        new.query = self.query.take();
        new.open = None;
        new.show_selected();
        let words = match lapsed {
            0 => "looked again: every decision still holds".to_owned(),
            n => format!("looked again: {} lapsed because the content changed", counted(n, "decision")),
        };
        new.message = Some((if lapsed == 0 { Tone::Good } else { Tone::Warning }, words));
        *self = new;
    }

    /// Does what a key means.
    pub fn act(&mut self, action: Action) -> Effect {
        if self.help {
            // Any key closes the help, and does nothing else.
            self.help = false;
            return Effect::Nothing;
        }
        self.message = None;
        match action {
            Action::Quit => return Effect::Quit,
            Action::Apply if self.decisions.tally().taken() > 0 => return Effect::Apply,
            Action::Apply => self.say(Tone::Warning, "nothing is accepted yet: a accepts a file or a hunk"),
            Action::Reload => return Effect::Reload,
            Action::Suspend => return Effect::Suspend,
            Action::Help => self.help = true,
            Action::Search => self.prompt = Some(Prompt::default()),
            Action::Accept => self.decide(Some(true)),
            Action::Reject => self.decide(Some(false)),
            Action::Undecide => self.decide(None),
            Action::AcceptSafe => self.accept_safe(),
            Action::SwitchPane => self.pane = if self.pane == Pane::Files { Pane::Hunks } else { Pane::Files },
            Action::Cancel if self.query.is_some() => (self.query, self.found) = (None, None),
            Action::Cancel => self.pane = Pane::Files,
            Action::Next if self.query.is_some() => self.search_on(true),
            Action::Before if self.query.is_some() => self.search_on(false),
            other => self.travel(other),
        }
        self.show_selected();
        Effect::Nothing
    }

    /// Opens what is chosen in the list, if it is not open already.
    pub(super) fn show_selected(&mut self) {
        let node = self.list.selected();
        if node != self.open || node.is_none() {
            self.open = node;
            self.viewer.open(self.document(false));
        }
    }

    pub(super) fn read_long(&mut self) {
        self.viewer.open(self.document(true));
    }

    pub(super) fn say(&mut self, tone: Tone, words: impl Into<String>) {
        self.message = Some((tone, words.into()));
    }

    fn node_of(&self, path: &std::path::Path) -> Option<usize> {
        self.tree.nodes.iter().position(|n| n.change().is_some_and(|c| self.subject.changes[c].path == path))
    }

    fn document(&self, even_if_long: bool) -> Document {
        let Some(node) = self.list.selected().map(|n| &self.tree.nodes[n]) else {
            return Document::of_notes(vec![(Tone::Dim, "nothing changed".to_owned())]);
        };
        if let Some(change) = node.change() {
            let change = &self.subject.changes[change];
            let conflict = self.subject.conflicts.get(&change.path).copied();
            return Document::of(change, conflict, &self.subject.project, self.read, even_if_long);
        }
        let mut notes = vec![(Tone::Plain, format!("{}, {}", counted(node.files as u64, "change"), bytes(node.bytes)))];
        let words = match (&node.item, node.group) {
            (Item::Group, Group::Risky) => "each of these does something by being there; they are approved one by one",
            (Item::Group, Group::Ignored) => "build output and the like, by the project's own rules; not part of A",
            (Item::Group, Group::Outside) => "not in the project; not part of A",
            _ => "a accepts all of them, x rejects all of them",
        };
        notes.push((Tone::Dim, words.to_owned()));
        Document::of_notes(notes)
    }

    /// The command that uses the decisions.
    #[must_use]
    pub fn next_step(&self) -> String {
        let tally = self.decisions.tally();
        if tally.taken() == 0 {
            let verb = if tally.undecided == 0 { "reject" } else { "review" };
            return format!("whatif {verb} {}", self.subject.name);
        }
        let outside = if self.takes_outside() { " --outside" } else { "" };
        format!("whatif apply {}{outside}", self.subject.name)
    }

    /// Whether something outside the project was accepted.
    #[must_use]
    pub fn takes_outside(&self) -> bool {
        let is_taken = |i| matches!(self.decisions.mark(i), Mark::Accepted | Mark::Partly);
        (0..self.facts.len()).any(|i| self.subject.changes[i].outside && is_taken(i))
    }

    /// The title of the right pane.
    #[must_use]
    pub fn title(&self) -> String {
        use std::os::unix::ffi::OsStrExt;
        let Some(node) = self.list.selected() else { return String::new() };
        match self.tree.nodes[node].change() {
            Some(change) => {
                let path = shown_path(&self.subject.changes[change].path, &self.subject.project);
                let slash = if self.facts[change].is_directory && path != std::path::Path::new("/") { "/" } else { "" };
                format!("{}{slash}", super::tree::visible(path.as_os_str().as_bytes()))
            }
            None => self.tree.nodes[node].label.clone(),
        }
    }
}

#[cfg(test)]
#[path = "app_tests.rs"]
mod tests;
