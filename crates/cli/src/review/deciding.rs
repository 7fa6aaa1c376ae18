//! What `a`, `x`, `u` and `A` do to what is chosen.

use whatif_engine::changes::review::Verdict;

use super::app::{App, Pane};
use super::decisions::Mark;
use super::facts::Group;
use super::theme::Tone;
use super::tree::Item;
use crate::output::counted;

impl App {
    /// Accepts, rejects, or takes a decision back.
    pub(super) fn decide(&mut self, accept: Option<bool>) {
        match (self.pane, self.chosen(), accept) {
            (Pane::Hunks, Some(change), Some(accept)) if self.viewer.document.hunks.len() > 1 => self.decide_hunk(change, accept),
            (_, Some(change), _) => self.decide_file(change, accept),
            (_, None, _) => self.decide_all_beneath(accept),
        }
        self.tree.count(&self.decisions);
    }

    pub(super) fn accept_safe(&mut self) {
        let safe = self.decisions.safe(&self.facts);
        let done = self.decisions.accept_but_rejected(&self.subject.changes, &safe) as u64;
        self.tree.count(&self.decisions);
        let left = self.decisions.tally().undecided;
        let rest = if left > 0 { format!("; {left} left to be looked at") } else { String::new() };
        self.say(Tone::Good, format!("{} accepted{rest}", counted(done, "change")));
    }

    fn decide_file(&mut self, change: usize, accept: Option<bool>) {
        if self.decisions.mark(change) == Mark::Blocked {
            self.say(Tone::Warning, "this can never be applied, so there is nothing to decide");
            return;
        }
        self.decisions.decide(&self.subject.changes, &[change], verdict(accept).as_ref());
        if self.pane == Pane::Files && accept.is_some() {
            self.list.go_to_next_file(&self.tree);
        }
    }

    fn decide_hunk(&mut self, change: usize, accept: bool) {
        let (hunk, count) = (self.viewer.hunk, self.viewer.document.hunks.len());
        if self.decisions.mark(change) == Mark::Blocked {
            return self.decide_file(change, Some(accept));
        }
        let was_open = self.decisions.hunk(&self.subject.changes[change], hunk).is_none();
        self.decisions.decide_hunk(&self.subject.changes, change, hunk, count, accept);
        self.viewer.go_to_hunk(hunk + 1);
        if was_open {
            self.say(Tone::Dim, "hunks that are not accepted stay out");
        }
    }

    fn decide_all_beneath(&mut self, accept: Option<bool>) {
        let Some(node) = self.list.selected() else { return };
        let (item, group) = (&self.tree.nodes[node].item, self.tree.nodes[node].group);
        if *item == Item::Group && group == Group::Risky && accept == Some(true) {
            self.say(Tone::Warning, "these are approved one by one");
            return;
        }
        let changes = self.tree.changes_in(node);
        if accept == Some(true) {
            return self.accept_all_of(&changes);
        }
        let done = self.decisions.decide(&self.subject.changes, &changes, verdict(accept).as_ref()) as u64;
        let words = if accept.is_some() { "rejected" } else { "undecided again" };
        self.say(Tone::Plain, format!("{} {words}", counted(done, "change")));
    }

    fn accept_all_of(&mut self, changes: &[usize]) {
        let done = self.decisions.accept_but_rejected(&self.subject.changes, changes) as u64;
        let stays = changes.iter().filter(|change| self.decisions.mark(**change) == Mark::Rejected).count();
        let rest = if stays > 0 { format!("; {stays} rejected before: accept each itself, or u first") } else { String::new() };
        self.say(Tone::Plain, format!("{} accepted{rest}", counted(done, "change")));
    }
}

fn verdict(accept: Option<bool>) -> Option<Verdict> {
    accept.map(|accept| if accept { Verdict::Accepted } else { Verdict::Rejected })
}
