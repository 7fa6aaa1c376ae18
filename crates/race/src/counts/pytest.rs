//! pytest: the last line, `== 1 failed, 2 passed in 0.12s ==`, or without the rules when it is quiet.

use whatif_types::experiment::TestCounts;

use super::form::{counted, is_decimal, is_time};
use super::{Failures, Format, add};

#[derive(Debug, Default)]
pub struct Pytest {
    sum: Option<TestCounts>,
    /// A session that said it began ends with its last summary; those before were printed by tests.
    session: Option<Option<TestCounts>>,
    is_in_summary: bool,
    failures: Failures,
}

impl Format for Pytest {
    fn line(&mut self, line: &str) {
        if let Some(counts) = summary(line) {
            match &mut self.session {
                Some(last) => *last = Some(counts),
                None => self.count(counts),
            }
            self.is_in_summary = false;
        } else if let Some(title) = ruled(line) {
            if title == "test session starts" {
                self.end_session();
                self.session = Some(None);
            }
            self.is_in_summary = title == "short test summary info";
        } else if self.is_in_summary
            && let Some(failure) = line.strip_prefix("FAILED ").or_else(|| line.strip_prefix("ERROR "))
        {
            self.failures.add(failure.split(" - ").next().unwrap_or(failure));
        }
    }

    fn finish(mut self: Box<Self>) -> Option<TestCounts> {
        self.end_session();
        let failures = if self.sum.as_ref().is_some_and(|sum| sum.failed > 0) { self.failures } else { Failures::default() };
        self.sum.map(|sum| TestCounts { failures: failures.into(), ..sum })
    }
}

impl Pytest {
    fn end_session(&mut self) {
        if let Some(Some(counts)) = self.session.take() {
            self.count(counts);
        }
    }

    fn count(&mut self, counts: TestCounts) {
        add(self.sum.get_or_insert_with(|| TestCounts { format: "pytest".to_owned(), ..TestCounts::default() }), counts);
    }
}

/// `=== title ===`
fn ruled(line: &str) -> Option<&str> {
    let title = line.strip_prefix('=')?.strip_suffix('=')?.trim_matches('=');
    title.strip_prefix(' ')?.strip_suffix(' ')
}

fn summary(line: &str) -> Option<TestCounts> {
    let text = ruled(line).unwrap_or(line);
    let (counts, time) = text.rsplit_once(" in ")?;
    // Long ones are told twice: `75.31s (0:01:15)`.
    let short = time.split_once(" (").map_or(time, |(short, _)| short);
    if !is_time(short) && !short.strip_suffix(" seconds").is_some_and(is_decimal) {
        return None;
    }
    let mut sum = TestCounts::default();
    if counts == "no tests ran" {
        return Some(sum);
    }
    let mut is_result = false;
    for part in counts.split(", ") {
        let (number, what) = counted(part)?;
        let kind = match what {
            "passed" | "xpassed" => Some(&mut sum.passed),
            "failed" | "error" | "errors" => Some(&mut sum.failed),
            // That one is expected to fail says nothing about whether it could pass.
            "skipped" | "xfailed" => Some(&mut sum.skipped),
            "deselected" => None,
            // Tests in tests are counted as the test they are in.
            "warning" | "warnings" | "rerun" | "subtests passed" | "subtest passed" | "subtests skipped" | "subtests failed" => {
                continue;
            }
            _ => return None,
        };
        is_result = true;
        if let Some(kind) = kind {
            *kind = kind.saturating_add(number);
        }
    }
    is_result.then_some(sum)
}
