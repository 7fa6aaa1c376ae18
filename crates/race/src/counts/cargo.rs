//! `cargo test`: one `test result:` line for each test binary.

use whatif_types::experiment::TestCounts;

use super::form::{counted, is_time, whole};
use super::{Failures, Format, add};

pub const FORMAT: &str = "cargo";

#[derive(Debug, Default)]
pub struct Cargo {
    sum: Option<TestCounts>,
    /// How many tests the binary said it would run. What tests print can look like a result; the right one is the last one
    /// that has so many.
    running: Option<u64>,
    candidate: Option<Candidate>,
    /// The indented names after `failures:`.
    listed: Option<Failures>,
}

#[derive(Debug)]
struct Candidate {
    counts: TestCounts,
    is_complete: bool,
}

impl Format for Cargo {
    fn line(&mut self, line: &str) {
        if line.starts_with("test result: ") {
            if let Some((counts, all)) = result(line) {
                self.result(counts, all);
            }
            self.listed = None;
        } else if let Some(number) = running(line) {
            self.end_binary();
            self.running = Some(number);
        } else if line == "failures:" {
            self.listed = Some(Failures::default());
        } else if let Some(listed) = &mut self.listed {
            match line.strip_prefix("    ") {
                Some(name) => listed.add(name),
                None if line.is_empty() => {}
                None => self.listed = None,
            }
        }
    }

    fn finish(mut self: Box<Self>) -> Option<TestCounts> {
        self.end_binary();
        self.sum
    }
}

impl Cargo {
    fn result(&mut self, mut counts: TestCounts, all: u64) {
        counts.failures = self.listed.take().unwrap_or_default().into();
        let Some(running) = self.running else {
            return self.count(counts);
        };
        let is_complete = all == running;
        if is_complete || !self.candidate.as_ref().is_some_and(|before| before.is_complete) {
            self.candidate = Some(Candidate { counts, is_complete });
        }
    }

    fn end_binary(&mut self) {
        self.running = None;
        if let Some(candidate) = self.candidate.take() {
            self.count(candidate.counts);
        }
    }

    fn count(&mut self, counts: TestCounts) {
        add(self.sum.get_or_insert_with(|| TestCounts { format: FORMAT.to_owned(), ..TestCounts::default() }), counts);
    }
}

/// `running 3 tests`
fn running(line: &str) -> Option<u64> {
    match counted(line.strip_prefix("running ")?)? {
        (number, "test" | "tests") => Some(number),
        _ => None,
    }
}

/// `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.01s`, and of how many.
fn result(line: &str) -> Option<(TestCounts, u64)> {
    let rest = line.strip_prefix("test result: ")?;
    let rest = rest.strip_prefix("ok. ").or_else(|| rest.strip_prefix("FAILED. "))?;
    let mut parts = rest.split("; ");
    let mut next = |what: &str| whole(parts.next()?.strip_suffix(what)?);
    let (passed, failed, ignored, measured) = (next(" passed")?, next(" failed")?, next(" ignored")?, next(" measured")?);
    next(" filtered out")?;
    let is_whole = match parts.next() {
        None => true,
        Some(end) => end.strip_prefix("finished in ").is_some_and(is_time) && parts.next().is_none(),
    };
    let passed = passed.saturating_add(measured);
    let all = passed.saturating_add(failed).saturating_add(ignored);
    is_whole.then(|| (TestCounts { passed, failed, skipped: ignored, ..TestCounts::default() }, all))
}
