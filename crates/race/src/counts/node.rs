//! `node --test`: the summary it ends with, in both of its reports.

use whatif_types::experiment::TestCounts;

use super::form::whole;
use super::{Failures, Format, add};

pub const FORMAT: &str = "node";

/// The lines of a summary, in their order; those that older versions do not have may be missing.
const SUMMARY: [&str; 7] = ["tests", "suites", "pass", "fail", "cancelled", "skipped", "todo"];

#[derive(Debug, Default)]
pub struct Node {
    sum: Option<TestCounts>,
    /// How many lines of a summary were seen, and what they said.
    seen: usize,
    numbers: [u64; SUMMARY.len()],
    is_in_failures: bool,
    failures: Failures,
}

impl Format for Node {
    fn line(&mut self, line: &str) {
        match part(line) {
            Some((what, number)) => self.part(what, number),
            None => {
                self.seen = 0;
                if line == "✖ failing tests:" {
                    self.is_in_failures = true;
                } else if self.is_in_failures
                    && let Some(name) = line.strip_prefix("✖ ")
                    && !name.ends_with(" # TODO")
                {
                    self.failures.add(without_time(name));
                }
            }
        }
    }

    fn finish(self: Box<Self>) -> Option<TestCounts> {
        let Self { sum, failures, .. } = *self;
        sum.map(|sum| TestCounts { failures: failures.into(), ..sum })
    }
}

impl Node {
    fn part(&mut self, what: &str, number: u64) {
        let Some(at) = SUMMARY.iter().position(|known| *known == what) else { return };
        let is_next = at == self.seen || (what == "pass" && self.seen == 1);
        if at == 0 {
            (self.seen, self.numbers) = (1, [number, 0, 0, 0, 0, 0, 0]);
        } else if is_next {
            (self.seen, self.numbers[at]) = (at + 1, number);
        } else {
            self.seen = 0;
        }
        if self.seen == SUMMARY.len() {
            self.seen = 0;
            let [_, _, passed, failed, cancelled, skipped, todo] = self.numbers;
            let counts = TestCounts {
                passed,
                failed: failed.saturating_add(cancelled),
                skipped: skipped.saturating_add(todo),
                ..TestCounts::default()
            };
            add(self.sum.get_or_insert_with(|| TestCounts { format: FORMAT.to_owned(), ..TestCounts::default() }), counts);
        }
    }
}

/// `# pass 3`, `ℹ pass 3`
fn part(line: &str) -> Option<(&str, u64)> {
    let rest = line.strip_prefix("# ").or_else(|| line.strip_prefix("ℹ "))?;
    let (what, number) = rest.split_once(' ')?;
    Some((what, whole(number)?))
}

/// `is wrong (1.99ms)`
fn without_time(name: &str) -> &str {
    match name.rsplit_once(" (") {
        Some((name, time)) if time.ends_with("ms)") => name,
        _ => name,
    }
}
