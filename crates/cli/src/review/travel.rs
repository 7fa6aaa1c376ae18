//! Moving about: in the list, in the hunks, and between them.

use super::app::{App, Pane};
use super::decisions::Mark;
use super::keys::Action;
use super::theme::Tone;

impl App {
    pub(super) fn travel(&mut self, action: Action) {
        match self.pane {
            Pane::Files => self.travel_in_files(action),
            Pane::Hunks => self.travel_in_hunks(action),
        }
    }

    fn travel_in_files(&mut self, action: Action) {
        let page = self.list.page();
        match action {
            Action::Down => self.list.move_by(1),
            Action::Up => self.list.move_by(-1),
            Action::PageDown => self.list.move_by(page),
            Action::PageUp => self.list.move_by(-page),
            Action::Top => self.list.go_to(0),
            Action::Bottom => self.list.go_to(usize::MAX),
            Action::Left if !self.list.fold(&self.tree, Some(true)) => self.list.go_to_parent(&self.tree),
            Action::Right if self.chosen().is_some() => self.enter(),
            Action::Right => drop(self.list.fold(&self.tree, Some(false))),
            Action::Open if !self.list.fold(&self.tree, None) => self.enter(),
            Action::Next | Action::NextHunk => self.go_to_undecided(true),
            Action::Previous | Action::PreviousHunk | Action::Before => self.go_to_undecided(false),
            _ => {}
        }
    }

    fn travel_in_hunks(&mut self, action: Action) {
        let page = self.viewer.height.saturating_sub(1).max(1) as isize;
        match action {
            // At the end of the view there may still be hunks to choose.
            Action::Down if !self.viewer.scroll(1) => self.next_hunk(true),
            Action::Up if !self.viewer.scroll(-1) => self.next_hunk(false),
            Action::PageDown => drop(self.viewer.scroll(page)),
            Action::PageUp => drop(self.viewer.scroll(-page)),
            Action::Top => self.viewer.go_to_start(),
            Action::Bottom => self.viewer.go_to_end(),
            Action::Open if self.viewer.document.is_postponed => self.read_long(),
            Action::Left | Action::Open => self.pane = Pane::Files,
            Action::Next | Action::NextHunk => self.next_hunk(true),
            Action::Previous | Action::PreviousHunk | Action::Before => self.next_hunk(false),
            _ => {}
        }
    }

    fn enter(&mut self) {
        self.pane = Pane::Hunks;
        if self.viewer.document.is_postponed {
            self.read_long();
        }
    }

    fn next_hunk(&mut self, forward: bool) {
        let hunk = if forward { Some(self.viewer.hunk + 1) } else { self.viewer.hunk.checked_sub(1) };
        if !hunk.is_some_and(|h| self.viewer.go_to_hunk(h)) && self.viewer.document.hunks.len() > 1 {
            self.say(Tone::Dim, if forward { "this is the last hunk" } else { "this is the first hunk" });
        }
    }

    fn go_to_undecided(&mut self, forward: bool) {
        let (nodes, decisions) = (&self.tree.nodes, &self.decisions);
        let is_open = |n: usize| nodes[n].change().is_some_and(|c| matches!(decisions.mark(c), Mark::Undecided | Mark::Lapsed));
        if !self.list.seek(&self.tree, forward, is_open) {
            self.say(Tone::Good, "everything is decided");
        }
    }
}
