//! The Test Anything Protocol, versions 12 to 14: a plan, `ok` and `not ok`. Subtests are indented; the test they belong to
//! is counted, they are not.

use whatif_types::experiment::TestCounts;

use super::form::whole;
use super::{Failures, Format, add};

pub const FORMAT: &str = "tap";

#[derive(Debug, Default)]
pub struct Tap {
    sum: Option<TestCounts>,
    document: Document,
    failures: Failures,
    /// For each depth, whether one below it failed: then the failure has its name already.
    has_failed_below: Vec<bool>,
}

/// One stream of results; several can follow each other.
#[derive(Debug, Default)]
struct Document {
    has_version: bool,
    plan: Option<u64>,
    seen: u64,
    counts: TestCounts,
    is_bailed_out: bool,
    /// Numbers that are out of order, without a line that says what it is: this is something else.
    is_doubtful: bool,
}

const INDENT: &str = "    ";
const DEEPEST: usize = 16;

impl Format for Tap {
    fn line(&mut self, line: &str) {
        let mut text = line;
        let mut depth = 0;
        while let Some(inner) = text.strip_prefix(INDENT)
            && depth < DEEPEST
        {
            (text, depth) = (inner, depth + 1);
        }
        if let Some(test) = test(text) {
            if depth == 0 {
                self.test(&test);
            }
            self.name(&test, depth);
        } else if depth > 0 {
        } else if let Some(version) = text.strip_prefix("TAP version ") {
            if whole(version.trim_end()).is_some() {
                self.end_document();
                self.document.has_version = true;
            }
        } else if let Some(plan) = plan(text) {
            if self.document.plan.is_some() {
                self.end_document();
            }
            self.document.plan = Some(plan);
        } else if text.starts_with("Bail out!") {
            self.document.is_bailed_out = true;
        }
    }

    fn finish(mut self: Box<Self>) -> Option<TestCounts> {
        self.end_document();
        let failures = if self.sum.as_ref().is_some_and(|sum| sum.failed > 0) { self.failures } else { Failures::default() };
        self.sum.map(|sum| TestCounts { failures: failures.into(), ..sum })
    }
}

struct Test<'l> {
    number: Option<u64>,
    name: String,
    result: Result,
    line: &'l str,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Result {
    Passed,
    Failed,
    /// Skipped, or still to be done: whatever it says does not count.
    Skipped,
}

impl Tap {
    fn test(&mut self, test: &Test) {
        // After a plan at the end, a first test begins the next document.
        if test.number == Some(1) && self.document.plan.is_some_and(|plan| self.document.seen >= plan) && self.document.seen > 0 {
            self.end_document();
        }
        let document = &mut self.document;
        document.seen = document.seen.saturating_add(1);
        document.is_doubtful |= test.number.is_some_and(|number| number != document.seen);
        let sum = match test.result {
            Result::Passed => &mut document.counts.passed,
            Result::Failed => &mut document.counts.failed,
            Result::Skipped => &mut document.counts.skipped,
        };
        *sum = sum.saturating_add(1);
    }

    /// Subtests come before the test they belong to.
    fn name(&mut self, test: &Test, depth: usize) {
        self.has_failed_below.resize(DEEPEST + 2, false);
        let is_named = std::mem::take(&mut self.has_failed_below[depth + 1]);
        if test.result == Result::Failed {
            self.has_failed_below[depth] = true;
            if !is_named {
                self.failures.add(if test.name.is_empty() { test.line } else { &test.name });
            }
        }
    }

    fn end_document(&mut self) {
        let Document { has_version, plan, seen, mut counts, is_bailed_out, is_doubtful } = std::mem::take(&mut self.document);
        self.has_failed_below.clear();
        let is_tap = has_version || (plan.is_some() && seen > 0 && !is_doubtful);
        if !is_tap {
            return;
        }
        let missing = plan.unwrap_or(seen).saturating_sub(seen).max(u64::from(is_bailed_out));
        counts.failed = counts.failed.saturating_add(missing);
        add(self.sum.get_or_insert_with(|| TestCounts { format: FORMAT.to_owned(), ..TestCounts::default() }), counts);
    }
}

/// `1..4`, `1..0 # SKIP no network`
fn plan(text: &str) -> Option<u64> {
    let rest = text.strip_prefix("1..")?;
    let (number, comment) = rest.split_once(' ').unwrap_or((rest, "#"));
    comment.trim_start().starts_with('#').then(|| whole(number)).flatten()
}

/// `ok 1 - adds`, `not ok 2 subtracts # TODO later`
fn test(line: &str) -> Option<Test<'_>> {
    let (is_ok, rest) = match line.strip_prefix("not ok") {
        Some(rest) => (false, rest),
        None => (true, line.strip_prefix("ok")?),
    };
    let spaced = rest.strip_prefix(' ').or(if rest.is_empty() { Some("") } else { None })?;
    let (first, after) = spaced.split_once(' ').unwrap_or((spaced, ""));
    let (number, description) = match whole(first) {
        Some(number) => (Some(number), after),
        None if spaced.is_empty() || spaced.starts_with("- ") || spaced.starts_with('#') => (None, spaced),
        None => return None,
    };
    let (name, directive) = directive(description);
    let result = match directive {
        Directive::Skip | Directive::Todo => Result::Skipped,
        Directive::None if is_ok => Result::Passed,
        Directive::None => Result::Failed,
    };
    Some(Test { number, name, result, line })
}

enum Directive {
    None,
    Skip,
    Todo,
}

/// The description, and what stands after a `#` that is not escaped.
fn directive(description: &str) -> (String, Directive) {
    let is_directive = |at: &usize| description[..*at].is_empty() || description[..*at].ends_with(' ');
    let at = description.match_indices('#').map(|(at, _)| at).find(is_directive);
    let (name, comment) = at.map_or((description, ""), |at| (&description[..at], description[at + 1..].trim_start()));
    let begins = |word: &str| comment.get(..word.len()).is_some_and(|begin| begin.eq_ignore_ascii_case(word));
    let directive = if begins("skip") {
        Directive::Skip
    } else if begins("todo") {
        Directive::Todo
    } else {
        Directive::None
    };
    let name = name.trim();
    let name = name.strip_prefix("- ").unwrap_or(if name == "-" { "" } else { name });
    (name.replace("\\#", "#").replace("\\\\", "\\"), directive)
}
