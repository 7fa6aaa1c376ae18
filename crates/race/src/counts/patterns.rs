//! Tools whose reports are no format of their own, only a habit of printing: `table.rs` has what their lines look like. This
//! is the one reader for all of them.

mod language;
mod names;
mod table;
mod tool;

use whatif_types::experiment::TestCounts;

use self::language::Said;
use self::names::Names;
pub use self::table::{NODE, TOOLS};
use self::tool::{Step, Tool};
use super::{Format, add};

#[derive(Debug)]
pub struct Patterns {
    tool: &'static Tool,
    sum: Option<TestCounts>,
    summary: Summary,
    names: Names,
}

/// What the lines of a summary have said so far.
#[derive(Debug, Default)]
struct Summary {
    /// How many steps are done, left out ones included; 0 outside of a summary.
    done: usize,
    counts: TestCounts,
    ran: Option<u64>,
    failed_files: u64,
}

impl Format for Patterns {
    fn line(&mut self, line: &str) {
        let shown = line.trim_end();
        if !shown.is_empty() {
            self.step(shown);
        }
        self.names.line(line);
    }

    fn finish(mut self: Box<Self>) -> Option<TestCounts> {
        self.end_summary();
        let Self { sum, names, .. } = *self;
        let mut sum = sum?;
        if sum.failed > 0 {
            sum.failures = names.into_failures().into();
        }
        Some(sum)
    }
}

impl Patterns {
    pub fn of(tool: &'static Tool) -> Self {
        Self { tool, sum: None, summary: Summary::default(), names: Names::of(tool) }
    }

    fn step(&mut self, line: &str) {
        let awaited = self.tool.summary.iter().enumerate().filter(|(at, _)| self.is_awaited(*at));
        let found = awaited.filter_map(|(at, step)| Some((at, step, self.read(step, line)?))).next();
        let Some((at, step, said)) = found else { return self.end_summary() };
        if at == 0 {
            self.end_summary();
        }
        self.summary.done = at + 1;
        match step {
            Step::Tests(_) | Step::Perhaps(_) => {
                add(&mut self.summary.counts, said.counts());
                self.summary.ran = said.ran.or(self.summary.ran);
            }
            Step::Files(_) => self.summary.failed_files = said.failed,
        }
    }

    /// The first line begins a summary wherever it stands.
    fn is_awaited(&self, at: usize) -> bool {
        let done = self.summary.done;
        at == 0 || (0 < done && done <= at && self.tool.summary[done..at].iter().all(Step::is_optional))
    }

    fn read<'l>(&self, step: &Step, line: &'l str) -> Option<Said<'l>> {
        step.forms().iter().find_map(|form| language::read(form, &self.tool.counts, line))
    }

    /// Counts it, if no line of it is missing.
    fn end_summary(&mut self) {
        let Summary { done, mut counts, ran, failed_files } = std::mem::take(&mut self.summary);
        if done == 0 || !self.tool.summary[done..].iter().all(Step::is_optional) {
            return;
        }
        if let Some(ran) = ran {
            // Parts of one test can fail several times, and what fails before a test is none that was run.
            counts.passed = ran.saturating_sub(counts.failed).saturating_sub(counts.skipped);
        }
        counts.failed = counts.failed.saturating_add(self.names.take_broken());
        if counts.failed == 0 {
            counts.failed = failed_files;
        }
        self.names.after_summary(counts.failed);
        add(self.sum.get_or_insert_with(|| TestCounts { format: self.tool.name.to_owned(), ..TestCounts::default() }), counts);
    }
}

#[cfg(test)]
mod tests;
