//! What is raced: everything that was asked for, complete, so that a race can be resumed when the files it came from are gone.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Span;
use crate::text::Text;

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ExperimentPlan {
    pub attempts: Vec<AttemptPlan>,
    pub checks: Vec<CheckPlan>,
    pub metrics: Vec<MetricPlan>,
    /// How much each metric counts, by name; built-in ones count only if they are named here.
    pub weights: BTreeMap<String, f64>,
    /// For `sh -c`, once, before all attempts begin where it ended.
    pub setup: Option<String>,
    /// For `sh -c`: is shown those that are level and names the better one.
    pub judge: Option<String>,
    /// Patterns of paths that an attempt must not change.
    pub protect: Vec<String>,
    /// How often the checks of each attempt are run.
    pub repeats: u32,
    /// How many attempts run at the same time, at most.
    pub jobs: Option<u32>,
    /// Time for all of it together.
    pub budget: Option<Span>,
    /// Ends when one attempt passes.
    pub first_success: bool,
    /// An attempt is over when it fails a required check; the rest of its checks are not run.
    pub cancel_losers: bool,
}

/// One attempt. Whatever it is, in the end it is a program that is run in a sandbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AttemptPlan {
    pub name: String,
    pub kind: Kind,
    /// One line for people: the command, the patch file, the prompt.
    pub about: String,
    pub arguments: Vec<Text>,
    /// Its standard input.
    #[serde(default)]
    pub input: Option<Text>,
    /// Of a matrix: also variables of its environment.
    #[serde(default)]
    pub parameters: BTreeMap<String, String>,
}

impl AttemptPlan {
    /// What the records say was run, where that is a script of our own and nobody's command.
    #[must_use]
    pub fn called(&self) -> Option<String> {
        match self.kind {
            Kind::Patch => Some(format!("Apply patch {}", self.about)),
            Kind::Revert => Some(format!("Revert {}", self.about.strip_prefix("revert ").unwrap_or(&self.about))),
            Kind::Command | Kind::Prompt | Kind::Merge => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Command,
    Patch,
    /// Takes a commit back.
    Revert,
    /// A prompt for an agent.
    Prompt,
    /// Parts of other attempts, put together.
    Merge,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CheckPlan {
    pub name: String,
    /// For `sh -c`, in the project.
    pub run: String,
    /// Whoever fails it does not win.
    pub required: bool,
    pub timeout: Option<Span>,
    /// A JUnit report that it writes, relative to the project.
    #[serde(default)]
    pub report: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetricPlan {
    pub name: String,
    pub extract: Extract,
    pub better: Better,
    /// The check whose output it is read from; the last that has it, otherwise.
    #[serde(default)]
    pub check: Option<String>,
}

/// How a number is found in what a check printed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Extract {
    /// Its first group, or all of it; the last match counts.
    Regex(String),
    /// A path such as `$.summary.total[0]` in the last line that is JSON, or in all of the output.
    Json(String),
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Better {
    #[default]
    Lower,
    Higher,
}
