//! Decisions about a change set, file by file and hunk by hunk.
//!
//! They are kept beside the sandbox. Each is bound to what was looked at: when the content changes, the decision lapses.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use whatif_diff::{Change, ChangeSet, digest};
use whatif_types::Sandbox;
use whatif_types::text::Text;

use crate::{Engine, EngineError, private_file};

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
}

/// All decisions about one sandbox.
#[derive(Clone, Debug, Default)]
pub struct Review {
    /// Of the change set that was looked at.
    pub digest: String,
    decisions: BTreeMap<PathBuf, Decision>,
    /// Paths whose content changed after they were decided about.
    pub lapsed: Vec<PathBuf>,
}

#[derive(Serialize, Deserialize)]
struct Stored {
    digest: String,
    decisions: Vec<(Text, Decision)>,
}

impl Review {
    #[must_use]
    pub fn verdict(&self, path: &Path) -> Option<&Verdict> {
        self.decisions.get(path).map(|d| &d.verdict)
    }

    /// Decides about a change as it is now; `None` takes a decision back.
    pub fn decide(&mut self, change: &Change, verdict: Option<Verdict>) {
        self.lapsed.retain(|p| *p != change.path);
        match verdict {
            Some(verdict) => {
                let decision = Decision { stamp: digest::hex(&digest::stamp(change)), verdict };
                self.decisions.insert(change.path.clone(), decision);
            }
            None => {
                self.decisions.remove(&change.path);
            }
        }
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.decisions.is_empty()
    }

    /// Without what is no longer true.
    fn still_valid(mut self, set: &ChangeSet) -> Self {
        let (valid, lapsed): (BTreeMap<_, _>, BTreeMap<_, _>) = self.decisions.into_iter().partition(|(path, decision)| {
            set.find(path).is_some_and(|change| digest::hex(&digest::stamp(change)) == decision.stamp)
        });
        self.decisions = valid;
        // What is no change any more has been applied or taken back; there is nothing left to decide.
        self.lapsed = lapsed.into_keys().filter(|path| set.find(path).is_some()).collect();
        self.digest.clone_from(&set.digest);
        self
    }
}

impl Engine {
    /// The decisions made so far that still hold.
    pub fn review(&self, sandbox: &Sandbox, set: &ChangeSet) -> Result<Review, EngineError> {
        let path = self.directory(sandbox)?.join(FILE);
        let bytes = match std::fs::read(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Review::default()),
            other => other.map_err(|e| EngineError::io("read", &path, e))?,
        };
        // Decisions that cannot be read are no decisions.
        let Ok(stored) = serde_json::from_slice::<Stored>(&bytes) else { return Ok(Review::default()) };
        let decisions = stored.decisions.into_iter().map(|(path, decision)| (path.to_path(), decision)).collect();
        Ok(Review { digest: stored.digest, decisions, lapsed: Vec::new() }.still_valid(set))
    }

    pub fn save_review(&self, sandbox: &Sandbox, review: &Review) -> Result<(), EngineError> {
        let path = self.directory(sandbox)?.join(FILE);
        let decisions = review.decisions.iter().map(|(path, decision)| (Text::from(path), decision.clone())).collect();
        let stored = Stored { digest: review.digest.clone(), decisions };
        let bytes = serde_json::to_vec(&stored).map_err(|e| EngineError::io("write", &path, e.into()))?;
        private_file::replace(&path, &bytes).map_err(|e| EngineError::io("write", &path, e))
    }
}
