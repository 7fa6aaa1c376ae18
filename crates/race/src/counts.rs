//! How many tests passed, out of what a check printed.
//!
//! Each format looks at every line and believes only those that have its whole form. A check may run several test tools:
//! what they count is added up, except where one tool shows the same tests in two ways.

mod cargo;
mod failures;
mod form;
mod go;
pub mod junit;
mod nextest;
mod patterns;
mod pytest;
mod tap;

use std::fmt::Debug;

use whatif_types::experiment::TestCounts;

use self::failures::Failures;
use self::patterns::Patterns;
use crate::lines::Lines;

/// What one format has seen so far. Takes a bounded amount of memory, whatever the lines.
trait Format: Debug + Send {
    fn line(&mut self, line: &str);
    fn finish(self: Box<Self>) -> Option<TestCounts>;
}

/// Reads counts out of a stream of output.
#[derive(Debug)]
pub struct Counter {
    lines: Lines,
    formats: Vec<Box<dyn Format>>,
}

/// Longer lines are no result of a test.
const LONGEST_LINE: usize = 64 << 10;

impl Default for Counter {
    fn default() -> Self {
        Self::new()
    }
}

impl Counter {
    #[must_use]
    pub fn new() -> Self {
        let mut formats: Vec<Box<dyn Format>> = vec![
            Box::<nextest::Nextest>::default(),
            Box::<cargo::Cargo>::default(),
            Box::<pytest::Pytest>::default(),
            Box::<go::Go>::default(),
            Box::<tap::Tap>::default(),
        ];
        formats.extend(patterns::TOOLS.iter().map(|tool| -> Box<dyn Format> { Box::new(Patterns::of(tool)) }));
        Self { lines: Lines::up_to(LONGEST_LINE), formats }
    }

    pub fn feed(&mut self, bytes: &[u8]) {
        let Self { lines, formats } = self;
        lines.feed(bytes, &mut |line| formats.iter_mut().for_each(|format| format.line(line)));
    }

    /// None if no tests were reported in a form that is known.
    #[must_use]
    pub fn finish(self) -> Option<TestCounts> {
        let Self { lines, mut formats } = self;
        lines.finish(&mut |line| formats.iter_mut().for_each(|format| format.line(line)));
        let mut found: Vec<TestCounts> = formats.into_iter().filter_map(Format::finish).collect();
        // Both print what each test printed, or each test by itself, and then count all of them.
        prefer(&mut found, nextest::FORMAT, cargo::FORMAT);
        prefer(&mut found, patterns::NODE, tap::FORMAT);
        let mut found = found.into_iter();
        let mut sum = found.next()?;
        for more in found {
            sum.format = format!("{}+{}", sum.format, more.format);
            add(&mut sum, more);
        }
        Some(sum)
    }
}

/// The second is the same tests, but may know more names.
fn prefer(found: &mut Vec<TestCounts>, one: &str, other: &str) {
    let Some(other) = found.iter().position(|counts| counts.format == other) else { return };
    if let Some(one) = found.iter().position(|counts| counts.format == one) {
        let names = std::mem::take(&mut found[other].failures);
        if found[one].failures.is_empty() && found[one].failed > 0 {
            found[one].failures = names;
        }
        found.remove(other);
    }
}

fn add(sum: &mut TestCounts, more: TestCounts) {
    sum.passed = sum.passed.saturating_add(more.passed);
    sum.failed = sum.failed.saturating_add(more.failed);
    sum.skipped = sum.skipped.saturating_add(more.skipped);
    let mut failures = Failures::from(std::mem::take(&mut sum.failures));
    more.failures.iter().for_each(|name| failures.add(name));
    sum.failures = failures.into();
}

#[cfg(test)]
mod tests;
