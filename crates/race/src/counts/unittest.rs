//! Python's unittest: `Ran 7 tests in 0.001s`, and below it `OK` or `FAILED (failures=1)`.

use whatif_types::experiment::TestCounts;

use super::form::{counted, is_time, whole};
use super::{Failures, Format, add};

#[derive(Debug, Default)]
pub struct Unittest {
    sum: Option<TestCounts>,
    /// How many were run, while the line that says how they went is awaited.
    ran: Option<u64>,
    /// After a rule comes the name of a failure.
    is_after_rule: bool,
    failures: Failures,
}

impl Format for Unittest {
    fn line(&mut self, line: &str) {
        let is_after_rule = std::mem::replace(&mut self.is_after_rule, is_rule(line));
        if let Some(number) = ran(line) {
            self.ran = Some(number);
        } else if let Some(number) = self.ran
            && !line.is_empty()
        {
            self.ran = None;
            if let Some(counts) = verdict(line, number) {
                let sum = self.sum.get_or_insert_with(|| TestCounts { format: "unittest".to_owned(), ..TestCounts::default() });
                add(sum, counts);
            }
        } else if is_after_rule && let Some(name) = line.strip_prefix("FAIL: ").or_else(|| line.strip_prefix("ERROR: ")) {
            self.failures.add(name);
        }
    }

    fn finish(self: Box<Self>) -> Option<TestCounts> {
        let Self { sum, failures, .. } = *self;
        let failures = if sum.as_ref().is_some_and(|sum| sum.failed > 0) { failures } else { Failures::default() };
        sum.map(|sum| TestCounts { failures: failures.into(), ..sum })
    }
}

fn is_rule(line: &str) -> bool {
    line.len() == 70 && line.bytes().all(|byte| byte == b'=')
}

fn ran(line: &str) -> Option<u64> {
    let (number, rest) = counted(line.strip_prefix("Ran ")?)?;
    let time = rest.strip_prefix("tests in ").or_else(|| rest.strip_prefix("test in "))?;
    is_time(time).then_some(number)
}

fn verdict(line: &str, ran: u64) -> Option<TestCounts> {
    let details = ["OK", "FAILED", "NO TESTS RAN"].iter().find_map(|word| line.strip_prefix(word))?;
    let mut counts = TestCounts::default();
    if !details.is_empty() {
        for detail in details.strip_prefix(" (")?.strip_suffix(')')?.split(", ") {
            let (what, number) = detail.split_once('=')?;
            let sum = match what {
                "failures" | "errors" | "unexpected successes" => &mut counts.failed,
                "skipped" | "expected failures" => &mut counts.skipped,
                _ => return None,
            };
            *sum = sum.saturating_add(whole(number)?);
        }
    }
    // Parts of one test can fail several times, and what fails before a test is none that was run.
    counts.passed = ran.saturating_sub(counts.failed).saturating_sub(counts.skipped);
    Some(counts)
}
