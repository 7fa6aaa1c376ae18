//! Jest: `Test Suites:` and below it `Tests:       1 failed, 2 passed, 3 total`.

use std::collections::BTreeSet;

use whatif_types::experiment::TestCounts;

use super::form::counted;
use super::{Failures, Format, add};

#[derive(Debug, Default)]
pub struct Jest {
    sum: Option<TestCounts>,
    /// Of the line before: how many suites failed.
    suites: Option<u64>,
    /// The file whose failures are being told.
    file: String,
    /// Files that could not be run, so that none of their tests is counted.
    broken: BTreeSet<String>,
    failures: Failures,
}

/// Of files that could not be run.
const MOST_BROKEN: usize = 1000;

impl Format for Jest {
    fn line(&mut self, line: &str) {
        if line.is_empty() {
            return;
        }
        let suites = self.suites.take();
        if let Some(totals) = line.strip_prefix("Test Suites: ") {
            self.suites = totals_of(totals).map(|counts| counts.failed);
        } else if let (Some(suites), Some(totals)) = (suites, line.strip_prefix("Tests: ")) {
            if let Some(counts) = totals_of(totals) {
                self.count(counts, suites);
            }
        } else if let Some(file) = line.strip_prefix(' ').unwrap_or(line).strip_prefix("FAIL ") {
            self.file = file.trim().chars().take(200).collect();
        } else if let Some(name) = line.strip_prefix("  ● ") {
            self.failure(name);
        }
    }

    fn finish(self: Box<Self>) -> Option<TestCounts> {
        let Self { sum, failures, .. } = *self;
        let failures = if sum.as_ref().is_some_and(|sum| sum.failed > 0) { failures } else { Failures::default() };
        sum.map(|sum| TestCounts { failures: failures.into(), ..sum })
    }
}

impl Jest {
    fn failure(&mut self, name: &str) {
        match name {
            "Console" => {}
            "Test suite failed to run" => {
                self.failures.add(&self.file);
                if self.broken.len() < MOST_BROKEN {
                    self.broken.insert(self.file.clone());
                }
            }
            _ => self.failures.add(name),
        }
    }

    fn count(&mut self, mut counts: TestCounts, failed_suites: u64) {
        let broken = std::mem::take(&mut self.broken).len() as u64;
        counts.failed = counts.failed.saturating_add(broken);
        if counts.failed == 0 {
            counts.failed = failed_suites;
        }
        add(self.sum.get_or_insert_with(|| TestCounts { format: "jest".to_owned(), ..TestCounts::default() }), counts);
    }
}

/// `1 failed, 2 passed, 3 total`: they must add up.
fn totals_of(text: &str) -> Option<TestCounts> {
    let mut counts = TestCounts::default();
    let (parts, total) = text.trim().rsplit_once(", ").unwrap_or(("", text.trim()));
    let (total, _) = counted(total).filter(|(_, what)| *what == "total")?;
    for part in parts.split(", ").filter(|part| !part.is_empty()) {
        let (number, what) = counted(part)?;
        let sum = match what {
            "passed" => &mut counts.passed,
            "failed" => &mut counts.failed,
            "skipped" | "todo" | "pending" => &mut counts.skipped,
            _ => return None,
        };
        *sum = sum.checked_add(number)?;
    }
    (counts.passed.checked_add(counts.failed)?.checked_add(counts.skipped)? == total).then_some(counts)
}
