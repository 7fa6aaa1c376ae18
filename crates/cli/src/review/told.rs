//! Stored decisions, for programs.

use serde::Serialize;
use whatif_engine::changes::diff::Diff;
use whatif_engine::changes::review::{Review, Verdict};
use whatif_engine::shown_path;
use whatif_types::text::Text;

#[derive(Debug, Serialize)]
pub struct Document {
    pub sandbox: Whose,
    pub digest: String,
    pub decisions: Vec<Told>,
    /// Decided about before the content changed.
    pub lapsed: Vec<Text>,
}

#[derive(Debug, Serialize)]
pub struct Whose {
    pub id: String,
    pub name: String,
    #[serde(with = "whatif_types::text::path")]
    pub project: std::path::PathBuf,
}

#[derive(Debug, Serialize)]
pub struct Told {
    pub path: Text,
    /// `accepted`, `rejected` or `hunks`.
    pub verdict: &'static str,
    /// The accepted ones, as `apply --hunks` counts them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hunks: Option<Vec<usize>>,
    /// The content changed since; only a rejection outlives that.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub lapsed: bool,
}

/// The decisions that still hold.
#[must_use]
pub fn document(diff: &Diff, review: &Review) -> Document {
    let project = &diff.sandbox.project;
    let text = |path: &std::path::Path| Text::from(shown_path(path, project));
    let told = |change: &whatif_engine::Change| {
        let (verdict, hunks) = match review.verdict(&change.path)? {
            Verdict::Accepted => ("accepted", None),
            Verdict::Rejected => ("rejected", None),
            Verdict::Hunks(numbers) => ("hunks", Some(numbers.clone())),
        };
        Some(Told { path: text(&change.path), verdict, hunks, lapsed: review.lapsed.contains(&change.path) })
    };
    Document {
        sandbox: Whose { id: diff.sandbox.id.to_string(), name: diff.sandbox.name.clone(), project: project.clone() },
        digest: diff.set.digest.clone(),
        decisions: diff.set.changes.iter().filter_map(told).collect(),
        lapsed: review.lapsed.iter().map(|p| text(p)).collect(),
    }
}
