//! What came of an attempt.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::text::Text;
use crate::{LimitHit, Usage};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    pub verdict: Verdict,
    /// How its own command ended; none if it was never run.
    pub ended: Option<Ended>,
    /// In the order of the plan; fewer if it was over before.
    pub checks: Vec<CheckOutcome>,
    pub changes: Changes,
    /// Hosts it tried and was not let to, as `host:port`.
    pub denied: Vec<String>,
    /// Custom ones and built-in ones, by name.
    pub metrics: BTreeMap<String, Measured>,
    /// What else is worth knowing, one sentence each.
    pub remarks: Vec<String>,
}

impl Outcome {
    /// Of an attempt that nothing else is known about.
    #[must_use]
    pub fn without_result(verdict: Verdict) -> Self {
        Self {
            verdict,
            ended: None,
            checks: Vec::new(),
            changes: Changes::default(),
            denied: Vec::new(),
            metrics: BTreeMap::new(),
            remarks: Vec::new(),
        }
    }

    /// The most memory any command of it took.
    #[must_use]
    pub fn peak_memory(&self) -> u64 {
        let all = self.checks.iter().flat_map(|check| &check.runs).chain(&self.ended);
        all.map(|ended| ended.usage.peak_memory_bytes).max().unwrap_or(0)
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "is", content = "because")]
pub enum Verdict {
    /// It passes every required check.
    Passed,
    /// It does not; the checks say which.
    FailedChecks,
    /// Its own command failed, so that nothing was checked.
    Failed,
    /// It changed what it must not; the paths.
    Forbidden(String),
    /// It was stopped or never begun: another one won, the budget was used up.
    Cancelled(String),
    /// We could not run it.
    Broken(String),
}

/// How a command ended.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ended {
    pub exit_code: i32,
    pub timed_out: bool,
    pub limit_hit: Option<LimitHit>,
    pub usage: Usage,
    /// The last lines it printed.
    pub tail: String,
}

impl Ended {
    #[must_use]
    pub fn is_success(&self) -> bool {
        self.exit_code == 0 && !self.timed_out && self.limit_hit.is_none()
    }
}

/// A check, and how it went each time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckOutcome {
    pub name: String,
    pub required: bool,
    /// One for each repeat.
    pub runs: Vec<Ended>,
    /// Of the run with the most failures.
    pub tests: Option<TestCounts>,
}

impl CheckOutcome {
    /// Before it was run.
    #[must_use]
    pub fn new(name: &str, required: bool) -> Self {
        Self { name: name.to_owned(), required, runs: Vec::new(), tests: None }
    }

    /// One more time.
    pub fn add(&mut self, ended: Ended, tests: Option<TestCounts>) {
        self.runs.push(ended);
        let rank = |counts: &TestCounts| (counts.failed, std::cmp::Reverse(counts.passed));
        let is_worse = |new: &TestCounts| self.tests.as_ref().is_none_or(|known| rank(new) > rank(known));
        if let Some(tests) = tests.filter(is_worse) {
            self.tests = Some(tests);
        }
    }

    /// Every time.
    #[must_use]
    pub fn has_passed(&self) -> bool {
        !self.runs.is_empty() && self.runs.iter().all(Ended::is_success)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TestCounts {
    /// Who counted: `cargo`, `pytest`, `go`, `tap`, `junit`, …
    pub format: String,
    pub passed: u64,
    pub failed: u64,
    pub skipped: u64,
    /// The names of the first that failed.
    pub failures: Vec<String>,
}

/// A number that was measured once or several times.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// The median.
    pub value: f64,
    pub low: f64,
    pub high: f64,
    pub runs: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Changes {
    /// In the project, without what it ignores.
    pub files: u64,
    pub added_lines: u64,
    pub deleted_lines: u64,
    pub bytes: u64,
    pub ignored: u64,
    pub outside: u64,
    /// The first of them, by path.
    pub list: Vec<ChangedFile>,
}

impl Changes {
    /// Whether there is nothing at all to keep.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.files == 0 && self.ignored == 0 && self.outside == 0
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChangedFile {
    /// Relative to the project.
    pub path: Text,
    /// As `whatif diff` marks it: `+`, `~`, `-`, `>`.
    pub mark: char,
    pub added_lines: u64,
    pub deleted_lines: u64,
    /// The same in two attempts if they made the same of it.
    pub digest: String,
}
