//! `cargo nextest run`: one summary for all.

use whatif_types::experiment::TestCounts;

use super::form::{counted, is_time, whole};
use super::{Failures, Format, add};

pub const FORMAT: &str = "nextest";

#[derive(Debug, Default)]
pub struct Nextest {
    sum: Option<TestCounts>,
    failures: Failures,
}

impl Format for Nextest {
    fn line(&mut self, line: &str) {
        if let Some(counts) = summary(line) {
            add(self.sum.get_or_insert_with(|| TestCounts { format: FORMAT.to_owned(), ..TestCounts::default() }), counts);
        } else if let Some(name) = failure(line) {
            self.failures.add(name);
        }
    }

    fn finish(self: Box<Self>) -> Option<TestCounts> {
        let Self { sum, failures } = *self;
        let failures = if sum.as_ref().is_some_and(|sum| sum.failed > 0) { failures } else { Failures::default() };
        sum.map(|sum| TestCounts { failures: failures.into(), ..sum })
    }
}

/// `     Summary [   0.233s] 4/5 tests run: 2 passed (1 slow), 1 failed, 1 timed out, 1 skipped`
fn summary(line: &str) -> Option<TestCounts> {
    let rest = bracketed(line, "Summary")?;
    let (run, counts) = rest.split_once(" run: ")?;
    let (number, what) = run.split_once(' ')?;
    let is_run = number.split('/').all(|part| whole(part).is_some()) && matches!(what, "test" | "tests");
    let mut sum = TestCounts::default();
    for part in without_asides(counts).split(", ") {
        let (number, what) = counted(part.trim())?;
        let sum = match what {
            "passed" => &mut sum.passed,
            "failed" | "exec failed" | "timed out" => &mut sum.failed,
            "skipped" => &mut sum.skipped,
            _ => return None,
        };
        *sum = sum.saturating_add(number);
    }
    is_run.then_some(sum)
}

/// `        FAIL [   0.007s] (2/4) calc tests::panics`
fn failure(line: &str) -> Option<&str> {
    let marks = ["FAIL", "TIMEOUT", "SIGABRT", "SIGSEGV", "ABORT", "XFAIL"];
    let rest = marks.iter().find_map(|mark| bracketed(line, mark))?;
    match rest.strip_prefix('(').and_then(|rest| rest.split_once(") ")) {
        Some((_, name)) => Some(name),
        None => Some(rest),
    }
}

/// What follows `MARK [ TIME] `.
fn bracketed<'l>(line: &'l str, mark: &str) -> Option<&'l str> {
    let rest = line.strip_prefix("    ")?.trim_start().strip_prefix(mark)?.strip_prefix(" [")?;
    let (time, rest) = rest.split_once("] ")?;
    is_time(time.trim().trim_start_matches('>')).then(|| rest.trim())
}

/// `(1 slow, 2 flaky)` is about tests that are counted already.
fn without_asides(text: &str) -> String {
    let mut plain = String::new();
    let mut depth = 0_u32;
    for c in text.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ if depth == 0 => plain.push(c),
            _ => {}
        }
    }
    plain.replace(" ,", ",").trim().to_owned()
}
