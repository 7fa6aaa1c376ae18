//! Decisions about a change set, file by file and hunk by hunk.
//!
//! They are kept with the sandbox. Each is bound to what was looked at. What the sandbox does afterwards can only ask the question
//! again, never answer it: an approval whose content changed is open, a rejection stays one until a person decides again, and as
//! long as there is any decision that was not carried out, what has none is not taken. A rejected hunk is told by its lines, so the
//! rejection outlives an apply of the other hunks of its file, and what the sandbox does elsewhere in it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use whatif_diff::digest::Form;
use whatif_diff::text::Content;
use whatif_diff::{Change, ChangeSet, digest};
use whatif_types::text::Text;
use whatif_types::{EventKind, Sandbox, Status};

use crate::changes::{Changes, ChangesError};
use crate::ground::events::Facts;
use crate::{EngineError, private_file};

mod rejected;

pub use rejected::RejectedHunks;

const FILE: &str = "review.json";

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Accepted,
    Rejected,
    /// The numbers of the accepted hunks, as `apply --hunks` counts them.
    Hunks(Vec<usize>),
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// Of what was decided about.
    stamp: String,
    pub verdict: Verdict,
    /// The hunks that were rejected one by one, each by its lines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    rejected: Vec<String>,
    /// An apply has made it real. It counts again only if an undo brings exactly this change back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    applied: bool,
}

/// All decisions about one sandbox.
#[derive(Clone, Debug, Default)]
pub struct Review {
    /// Of the change set that was looked at.
    pub digest: String,
    /// Also those whose content changed or disappeared since.
    decisions: BTreeMap<PathBuf, Decision>,
    /// Paths whose content changed after they were decided about.
    pub lapsed: BTreeSet<PathBuf>,
    /// Where hunks were rejected one by one, those that are still there.
    rejected: BTreeMap<PathBuf, RejectedHunks>,
    /// Left out by an apply of what was approved because nobody had decided about them, and nobody has since.
    open: BTreeSet<PathBuf>,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    digest: String,
    decisions: Vec<(Text, Decision)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    open: Vec<Text>,
}

impl Review {
    /// What holds for a path as it is now.
    #[must_use]
    pub fn verdict(&self, path: &Path) -> Option<&Verdict> {
        if self.has_only_rejected_hunks(path) {
            return Some(&Verdict::Rejected);
        }
        let verdict = self.decisions.get(path).map(|d| &d.verdict)?;
        (*verdict == Verdict::Rejected || !self.lapsed.contains(path)).then_some(verdict)
    }

    /// Decides about a change as it is now; `None` takes a decision back.
    pub fn decide(&mut self, change: &Change, verdict: Option<Verdict>) {
        self.decide_hunks(change, verdict, None);
    }

    /// The same, with the hunks that were rejected one by one.
    pub fn decide_hunks(&mut self, change: &Change, verdict: Option<Verdict>, rejected: Option<RejectedHunks>) {
        self.lapsed.remove(&change.path);
        self.rejected.remove(&change.path);
        self.open.remove(&change.path);
        // Of a rename, both halves are decided about.
        if let Some(old) = change.old_path() {
            self.decisions.remove(old);
        }
        match verdict {
            Some(verdict) => {
                let stamp = stamp(change, &verdict, form(change));
                let lines = rejected.as_ref().map(|rejected| rejected.by_lines(change)).unwrap_or_default();
                self.decisions.insert(change.path.clone(), Decision { stamp, verdict, rejected: lines, applied: false });
                self.rejected.extend(rejected.map(|rejected| (change.path.clone(), rejected)));
            }
            None => {
                self.decisions.remove(&change.path);
            }
        }
    }

    /// Whether a path waits for somebody to decide about it, because something else was decided.
    #[must_use]
    pub fn is_undecided(&self, path: &Path) -> bool {
        !self.decisions.is_empty() || self.open.contains(path)
    }

    /// Finds out which decisions lapsed, and leaves out those that were carried out.
    fn compared_with(mut self, set: &ChangeSet) -> Self {
        let (mut lapsed, mut rejected) = (BTreeSet::new(), BTreeMap::new());
        self.decisions.retain(|path, decision| {
            let Some(change) = set.find(path) else { return !decision.applied };
            let holds = stamp(change, &decision.verdict, Form::of(&decision.stamp)) == decision.stamp;
            if !holds && !decision.applied {
                lapsed.insert(path.clone());
            }
            let is_kept = holds || !decision.applied;
            if is_kept && !decision.rejected.is_empty() {
                let mut found = RejectedHunks::found(change, &decision.rejected);
                // One that looks the same may have been accepted.
                if let Verdict::Hunks(accepted) = &decision.verdict
                    && holds
                {
                    found.numbers.retain(|number| !accepted.contains(number));
                }
                rejected.insert(path.clone(), found);
            }
            is_kept
        });
        (self.lapsed, self.rejected) = (lapsed, rejected);
        // What is left of such a file is no question: it was answered.
        let answered: Vec<PathBuf> = self.lapsed.iter().filter(|path| self.has_only_rejected_hunks(path)).cloned().collect();
        answered.iter().for_each(|path| _ = self.lapsed.remove(path));
        self.open.retain(|path| set.find(path).is_some());
        self.digest.clone_from(&set.digest);
        self
    }
}

/// What a decision is bound to. The numbers of hunks mean something only together with what the file was before.
fn stamp(change: &Change, verdict: &Verdict, form: Form) -> String {
    let of_change = digest::stamp(change, form);
    let Verdict::Hunks(_) = verdict else { return of_change };
    match change.content() {
        Content::Text { before, .. } => format!("{of_change}:{}", digest::of_bytes(&before)),
        _ => of_change,
    }
}

/// Where something was alive, what was looked at was read once and for all, and that is what the decision is about.
fn form(change: &Change) -> Form {
    if change.after.as_ref().is_some_and(|after| after.sealed().is_some()) { Form::Content } else { Form::Times }
}

/// How many paths were decided which way.
fn counted(review: &Review) -> Facts {
    let with = |verdict: Verdict| review.decisions.values().filter(|decision| decision.verdict == verdict).count();
    vec![
        ("digest", review.digest.as_str().into()),
        ("accepted", with(Verdict::Accepted).into()),
        ("rejected", with(Verdict::Rejected).into()),
    ]
}

impl Changes {
    /// The decisions made so far, compared with what the sandbox has now.
    pub fn review(&self, sandbox: &Sandbox, set: &ChangeSet) -> Result<Review, EngineError> {
        let Some(stored) = self.stored_review(sandbox)? else { return Ok(Review::default()) };
        let decisions = stored.decisions.into_iter().map(|(path, decision)| (path.to_path(), decision)).collect();
        let open = stored.open.iter().map(Text::to_path).collect();
        Ok(Review { digest: stored.digest, decisions, open, ..Review::default() }.compared_with(set))
    }

    pub fn save_review(&self, sandbox: &Sandbox, review: &Review) -> Result<(), EngineError> {
        if self.takes_back_a_rejection(sandbox, review)? {
            self.take_back_rejection(sandbox)?;
        }
        let decisions = review.decisions.iter().map(|(path, decision)| (Text::from(path), decision.clone())).collect();
        let open = review.open.iter().map(Text::from).collect();
        self.store_review(sandbox, &Stored { digest: review.digest.clone(), decisions, open })?;
        self.ground.tell(EventKind::ReviewSaved, sandbox, counted(review));
        Ok(())
    }

    fn takes_back_a_rejection(&self, sandbox: &Sandbox, review: &Review) -> Result<bool, EngineError> {
        let Some(before) = self.stored_review(sandbox)? else { return Ok(false) };
        let is_rejected = |decision: &Decision| decision.verdict == Verdict::Rejected;
        let mut rejected = before.decisions.iter().filter(|(_, decision)| is_rejected(decision));
        Ok(rejected.any(|(path, _)| !review.decisions.get(&path.to_path()).is_some_and(is_rejected)))
    }

    /// A sandbox of which something is wanted is not rejected, and does not go after a while as one that is.
    fn take_back_rejection(&self, sandbox: &Sandbox) -> Result<(), EngineError> {
        self.ground.forget_rejection(sandbox)?;
        let mut now = self.ground.reread(sandbox)?;
        if now.status == Status::Rejected {
            now.status = Status::Stopped;
            self.ground.store.update(&mut now)?;
        }
        Ok(())
    }

    /// Notes what an apply leaves out because nobody has decided about it: the next one must not take it for that there is nothing
    /// left to decide about.
    pub(crate) fn note_left_open(&self, sandbox: &Sandbox, paths: &BTreeSet<&Path>) -> Result<(), EngineError> {
        let Some(mut stored) = self.stored_review(sandbox)?.filter(|_| !paths.is_empty()) else { return Ok(()) };
        let known: BTreeSet<PathBuf> = stored.open.iter().map(Text::to_path).collect();
        stored.open.extend(paths.iter().filter(|path| !known.contains(**path)).map(Text::from));
        self.store_review(sandbox, &stored)
    }

    /// Notes that what was decided about these paths has become real as a whole.
    pub(crate) fn note_carried_out(&self, sandbox: &Sandbox, paths: &BTreeSet<&Path>) -> Result<(), EngineError> {
        let Some(mut stored) = self.stored_review(sandbox)? else { return Ok(()) };
        for (_, decision) in stored.decisions.iter_mut().filter(|(path, _)| paths.contains(path.to_path().as_path())) {
            decision.applied = true;
        }
        self.store_review(sandbox, &stored)
    }

    /// Decisions that cannot be read may be rejections, so that is an error and not their absence.
    fn stored_review(&self, sandbox: &Sandbox) -> Result<Option<Stored>, EngineError> {
        let path = self.ground.directory(sandbox)?.join(FILE);
        let bytes = match std::fs::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            other => other.map_err(|e| EngineError::io("read", &path, e))?,
        };
        serde_json::from_slice(&bytes)
            .map(Some)
            .map_err(|_| ChangesError::DamagedReview { name: sandbox.name.clone(), path }.into())
    }

    fn store_review(&self, sandbox: &Sandbox, stored: &Stored) -> Result<(), EngineError> {
        let path = self.ground.directory(sandbox)?.join(FILE);
        let bytes = serde_json::to_vec(stored).map_err(|e| EngineError::io("write", &path, e.into()))?;
        private_file::replace_durably(&path, &bytes).map_err(|e| EngineError::io("write", &path, e))
    }
}
