//! What was decided, and what follows from it.

use whatif_engine::Change;
use whatif_engine::changes::review::{RejectedHunks, Review, Verdict};

use super::facts::{Facts, Group};
use super::implied::{self, Implied};

/// How a change is marked in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    Undecided,
    /// Decided before its content changed.
    Lapsed,
    Accepted,
    Rejected,
    /// Some of its hunks.
    Partly,
    /// Can never be applied.
    Blocked,
    /// A directory that follows what is in it.
    Implied,
}

/// How many changes stand where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    pub accepted: usize,
    pub rejected: usize,
    pub partly: usize,
    pub undecided: usize,
}

impl Tally {
    pub fn count(&mut self, mark: Mark) {
        match mark {
            Mark::Accepted => self.accepted += 1,
            Mark::Rejected => self.rejected += 1,
            Mark::Partly => self.partly += 1,
            Mark::Undecided | Mark::Lapsed => self.undecided += 1,
            Mark::Blocked | Mark::Implied => {}
        }
    }

    pub fn add(&mut self, other: Self) {
        self.accepted += other.accepted;
        self.rejected += other.rejected;
        self.partly += other.partly;
        self.undecided += other.undecided;
    }

    /// What an apply would take, at least in part.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.accepted + self.partly
    }

    #[must_use]
    pub fn decided(&self) -> usize {
        self.taken() + self.rejected
    }

    #[must_use]
    pub fn all(&self) -> usize {
        self.decided() + self.undecided
    }

    /// One mark for all of them.
    #[must_use]
    pub fn mark(&self) -> Mark {
        match self {
            t if t.all() == 0 => Mark::Blocked,
            t if t.accepted == t.all() => Mark::Accepted,
            t if t.rejected == t.all() => Mark::Rejected,
            t if t.decided() == 0 => Mark::Undecided,
            _ => Mark::Partly,
        }
    }
}

#[derive(Debug)]
pub struct Decisions {
    review: Review,
    marks: Vec<Mark>,
    implied: Vec<Implied>,
    /// Something was decided that is not stored yet.
    pub is_unsaved: bool,
}

impl Decisions {
    /// Takes up what was decided before. The facts learn which directories are implied.
    #[must_use]
    pub fn new(review: Review, changes: &[Change], facts: &mut [Facts]) -> Self {
        let implied = implied::find(changes, facts);
        let mark = |(change, facts): (&Change, &Facts)| match review.verdict(&change.path) {
            _ if facts.is_implied => Mark::Implied,
            _ if facts.is_blocked => Mark::Blocked,
            Some(verdict) => mark_of(verdict),
            None if review.lapsed.contains(&change.path) => Mark::Lapsed,
            None => Mark::Undecided,
        };
        let marks = changes.iter().zip(facts.iter()).map(mark).collect();
        Self { review, marks, implied, is_unsaved: false }
    }

    #[must_use]
    pub fn review(&self) -> &Review {
        &self.review
    }

    #[must_use]
    pub fn mark(&self, index: usize) -> Mark {
        self.marks[index]
    }

    #[must_use]
    pub fn tally(&self) -> Tally {
        let mut tally = Tally::default();
        self.marks.iter().for_each(|m| tally.count(*m));
        tally
    }

    /// Decides about those of the changes that can be decided about, and says how many these were.
    pub fn decide(&mut self, changes: &[Change], indices: &[usize], verdict: Option<&Verdict>) -> usize {
        let open = self.decidable(indices);
        for index in &open {
            self.note(&changes[*index], *index, verdict.cloned(), None);
        }
        self.end(changes, &open)
    }

    /// Accepts all of them at once, and says how many these were. A rejection is taken back only by an answer to what it is about:
    /// rejected files and hunks stay out.
    pub fn accept_but_rejected(&mut self, changes: &[Change], indices: &[usize]) -> usize {
        let mut open = self.decidable(indices);
        open.retain(|index| self.marks[*index] != Mark::Rejected);
        for index in &open {
            let change = &changes[*index];
            let rejected = self.review.rejected_hunks(&change.path).filter(|hunks| !hunks.numbers.is_empty()).cloned();
            let verdict = rejected.as_ref().map_or(Verdict::Accepted, |hunks| Verdict::Hunks(hunks.others()));
            self.note(change, *index, Some(verdict), rejected);
        }
        self.end(changes, &open)
    }

    fn decidable(&self, indices: &[usize]) -> Vec<usize> {
        indices.iter().filter(|i| !matches!(self.marks[**i], Mark::Blocked | Mark::Implied)).copied().collect()
    }

    fn note(&mut self, change: &Change, index: usize, verdict: Option<Verdict>, rejected: Option<RejectedHunks>) {
        self.marks[index] = verdict.as_ref().map_or(Mark::Undecided, mark_of);
        self.review.decide_hunks(change, verdict, rejected);
    }

    fn end(&mut self, changes: &[Change], decided: &[usize]) -> usize {
        if !decided.is_empty() {
            self.is_unsaved = true;
            self.follow(changes, decided);
        }
        decided.len()
    }

    /// Accepts or rejects one of the `count` hunks of a change, counted from 0.
    pub fn decide_hunk(&mut self, changes: &[Change], index: usize, hunk: usize, count: usize, accept: bool) {
        let change = &changes[index];
        let before = self.review.verdict(&change.path);
        let rejected = match (self.review.rejected_hunks(&change.path), before) {
            (Some(rejected), _) => rejected.clone(),
            (None, Some(Verdict::Rejected)) => RejectedHunks { numbers: (1..=count).collect(), count },
            (None, _) => RejectedHunks { count, ..RejectedHunks::default() },
        };
        let verdict = with_hunk(before, hunk, count, accept);
        let rejected = with_answer(rejected, hunk, accept);
        for index in self.decidable(&[index]) {
            self.note(change, index, Some(verdict.clone()), Some(rejected.clone()));
            self.end(changes, &[index]);
        }
    }

    /// Whether a hunk, counted from 0, is accepted; nothing if nobody decided yet.
    #[must_use]
    pub fn hunk(&self, change: &Change, hunk: usize) -> Option<bool> {
        let is_rejected = |hunks: &RejectedHunks| hunks.numbers.contains(&(hunk + 1));
        match self.review.verdict(&change.path) {
            Some(Verdict::Accepted) => Some(true),
            Some(Verdict::Rejected) => Some(false),
            Some(Verdict::Hunks(numbers)) => Some(numbers.contains(&(hunk + 1))),
            None => self.review.rejected_hunks(&change.path).is_some_and(is_rejected).then_some(false),
        }
    }

    /// What `A` accepts: undecided, and nothing that should be looked at by itself.
    #[must_use]
    pub fn safe(&self, facts: &[Facts]) -> Vec<usize> {
        let is_safe = |i: &usize| facts[*i].group == Group::Ordinary && matches!(self.marks[*i], Mark::Undecided | Mark::Lapsed);
        (0..facts.len()).filter(is_safe).collect()
    }

    /// Directories follow what is in them.
    fn follow(&mut self, changes: &[Change], decided: &[usize]) {
        for implied in &self.implied {
            let directory = &changes[implied.change];
            let is_concerned = match decided {
                [one] => implied.within.contains(one),
                _ => true,
            };
            if is_concerned {
                let verdict = implied::verdict(directory.kind, implied.within.iter().map(|i| self.marks[*i]));
                if self.review.verdict(&directory.path) != verdict.as_ref() {
                    self.review.decide(directory, verdict);
                }
            }
        }
    }
}

fn mark_of(verdict: &Verdict) -> Mark {
    match verdict {
        Verdict::Accepted => Mark::Accepted,
        Verdict::Rejected => Mark::Rejected,
        Verdict::Hunks(_) => Mark::Partly,
    }
}

/// What becomes of a verdict when one of `count` hunks is decided. Hunks nobody decided about are not accepted.
#[must_use]
pub fn with_hunk(verdict: Option<&Verdict>, hunk: usize, count: usize, accept: bool) -> Verdict {
    let was_accepted = |number: usize| match verdict {
        Some(Verdict::Accepted) => true,
        Some(Verdict::Hunks(numbers)) => numbers.contains(&number),
        Some(Verdict::Rejected) | None => false,
    };
    // Hunks are counted from 1, as `apply --hunks` does.
    let is_accepted = |number: &usize| if *number == hunk + 1 { accept } else { was_accepted(*number) };
    let numbers: Vec<usize> = (1..=count).filter(is_accepted).collect();
    match numbers.len() {
        0 => Verdict::Rejected,
        all if all == count => Verdict::Accepted,
        _ => Verdict::Hunks(numbers),
    }
}

fn with_answer(mut rejected: RejectedHunks, hunk: usize, accept: bool) -> RejectedHunks {
    if accept {
        rejected.numbers.remove(&(hunk + 1));
    } else {
        rejected.numbers.insert(hunk + 1);
    }
    rejected
}

#[cfg(test)]
#[path = "decisions_tests.rs"]
mod tests;
