//! What must hold before a change becomes real.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ApplyRules {
    /// Run in a sandbox of the merged result, before anything is written.
    pub checks: Vec<Check>,
    pub times: Times,
    /// How many applies can be undone.
    pub keep: usize,
}

impl Default for ApplyRules {
    fn default() -> Self {
        Self { checks: Vec::new(), times: Times::default(), keep: 100 }
    }
}

/// The times of the files an apply writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Times {
    /// When the sandbox wrote them.
    #[default]
    Sandbox,
    /// When they became real, as git does it: build tools then see that they are new.
    Now,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Check {
    pub name: String,
    /// For `sh -c`, in the project.
    pub run: String,
    /// Whether the apply is refused when it fails; otherwise that is only reported.
    #[serde(default = "yes")]
    pub required: bool,
    /// In seconds.
    #[serde(default = "ten_minutes")]
    pub timeout: u64,
}

fn yes() -> bool {
    true
}

fn ten_minutes() -> u64 {
    600
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct PolicyRules {
    /// Changes that need nobody's word.
    pub auto_approve: Option<AutoApprove>,
    /// Patterns of paths that are never applied.
    pub deny: Vec<String>,
    /// Patterns of paths that need their own approval.
    pub ask: Vec<String>,
    pub reject: Rejected,
}

/// All of it must hold.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AutoApprove {
    pub max_files: Option<u64>,
    pub max_lines: Option<u64>,
    /// Patterns; with none, every path.
    pub paths: Vec<String>,
}

/// What becomes of a rejected sandbox.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Rejected {
    #[default]
    Keep,
    Delete,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct CommitRules {
    /// Instead of the user's own identity.
    pub name: Option<String>,
    pub email: Option<String>,
    /// `Name <address>` of the agent, named as co-author.
    pub co_author: Option<String>,
    /// The message; `{sandbox}`, `{command}`, `{files}` and `{summary}` are replaced.
    pub message: Option<String>,
}
