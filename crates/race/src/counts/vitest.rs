//! Vitest: `Test Files  1 failed (1)` and below it `Tests  1 failed | 2 passed (3)`.

use whatif_types::experiment::TestCounts;

use super::form::{counted, whole};
use super::{Failures, Format, add};

#[derive(Debug, Default)]
pub struct Vitest {
    sum: Option<TestCounts>,
    /// Of the line before: how many files failed.
    files: Option<u64>,
    failures: Failures,
}

impl Format for Vitest {
    fn line(&mut self, line: &str) {
        if line.is_empty() {
            return;
        }
        let files = self.files.take();
        let text = line.trim_start();
        if let Some(totals) = text.strip_prefix("Test Files  ") {
            self.files = totals_of(totals).map(|counts| counts.failed);
        } else if let (Some(files), Some(totals)) = (files, text.strip_prefix("Tests  ")) {
            let counts = if totals.trim() == "no tests" { Some(TestCounts::default()) } else { totals_of(totals) };
            if let Some(mut counts) = counts {
                // A file that cannot be loaded has no tests that could fail.
                if counts.failed == 0 {
                    counts.failed = files;
                }
                add(self.sum.get_or_insert_with(|| TestCounts { format: "vitest".to_owned(), ..TestCounts::default() }), counts);
            }
        } else if let Some(name) = line.strip_prefix(" FAIL  ") {
            self.failures.add(name);
        }
    }

    fn finish(self: Box<Self>) -> Option<TestCounts> {
        let Self { sum, failures, .. } = *self;
        let failures = if sum.as_ref().is_some_and(|sum| sum.failed > 0) { failures } else { Failures::default() };
        sum.map(|sum| TestCounts { failures: failures.into(), ..sum })
    }
}

/// `1 failed | 2 passed (3)`: they must add up.
fn totals_of(text: &str) -> Option<TestCounts> {
    let (parts, total) = text.trim().strip_suffix(')')?.rsplit_once(" (")?;
    let mut counts = TestCounts::default();
    for part in parts.split(" | ") {
        let (number, what) = counted(part)?;
        let sum = match what {
            "passed" => &mut counts.passed,
            "failed" => &mut counts.failed,
            "skipped" | "todo" | "expected fail" => &mut counts.skipped,
            _ => return None,
        };
        *sum = sum.checked_add(number)?;
    }
    (counts.passed.checked_add(counts.failed)?.checked_add(counts.skipped)? == whole(total)?).then_some(counts)
}
