//! `go test`: `--- PASS` lines, `-json`, and where it tells of no test, one line for each package.

mod json;

use whatif_types::experiment::TestCounts;

use self::json::Json;
use super::form::is_time;
use super::{Failures, Format};

#[derive(Debug, Default)]
pub struct Go {
    tally: Tally,
    /// The last test that ended, and those it is part of. A test with parts is not counted, its parts are.
    open: Vec<Open>,
    /// Of the package that is being told about.
    in_package: InPackage,
    json: Json,
}

/// What is counted, if anything.
#[derive(Debug, Default)]
struct Tally {
    is_go: bool,
    counts: TestCounts,
    failures: Failures,
}

#[derive(Debug)]
struct Open {
    name: String,
    result: TestResult,
    has_parts: bool,
}

#[derive(Debug, Default)]
struct InPackage {
    has_tests: bool,
    has_failures: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TestResult {
    Passed,
    Failed,
    Skipped,
}

/// Names that are longer are cut; how deep tests can be in tests.
const LONGEST_NAME: usize = 1000;
const DEEPEST: usize = 64;

impl Format for Go {
    fn line(&mut self, line: &str) {
        if line.starts_with('{') {
            self.json.line(line, &mut self.tally);
        } else if let Some((depth, result, name)) = test(line) {
            self.test(depth, result, name);
        } else if let Some(package) = package(line) {
            self.close(0);
            self.package(&package);
        }
    }

    fn finish(mut self: Box<Self>) -> Option<TestCounts> {
        self.close(0);
        let Tally { is_go, counts, failures } = self.tally;
        is_go.then(|| TestCounts { format: "go".to_owned(), failures: failures.into(), ..counts })
    }
}

impl Go {
    fn test(&mut self, depth: usize, result: TestResult, name: &str) {
        if depth > self.open.len() || depth > DEEPEST {
            return;
        }
        self.close(depth);
        match self.open.last_mut() {
            Some(whole) if name.strip_prefix(whole.name.as_str()).is_some_and(|part| part.starts_with('/')) => {
                whole.has_parts = true
            }
            Some(_) => return,
            None => {}
        }
        self.open.push(Open { name: name.chars().take(LONGEST_NAME).collect(), result, has_parts: false });
    }

    /// Counts those that have no parts, down to this depth.
    fn close(&mut self, depth: usize) {
        for open in self.open.drain(depth.min(self.open.len())..).rev() {
            if !open.has_parts {
                self.in_package.has_tests = true;
                self.in_package.has_failures |= open.result == TestResult::Failed;
                self.tally.count(open.result, &open.name);
            }
        }
    }

    /// A package that tells of no test is counted itself: it passed, or could not be built, or ended before its tests did.
    fn package(&mut self, package: &Package) {
        let InPackage { has_tests, has_failures } = std::mem::take(&mut self.in_package);
        self.tally.is_go = true;
        match package {
            Package::Passed(name) if !has_tests => self.tally.count(TestResult::Passed, name),
            Package::Failed(name) if !has_failures => self.tally.count(TestResult::Failed, name),
            Package::Passed(_) | Package::Failed(_) | Package::Empty => {}
        }
    }
}

impl Tally {
    fn count(&mut self, result: TestResult, name: &str) {
        self.is_go = true;
        let sum = match result {
            TestResult::Passed => &mut self.counts.passed,
            TestResult::Failed => &mut self.counts.failed,
            TestResult::Skipped => &mut self.counts.skipped,
        };
        *sum = sum.saturating_add(1);
        if result == TestResult::Failed {
            self.failures.add(name);
        }
    }
}

/// `    --- FAIL: TestTable/two (0.00s)`, with how deep it is.
fn test(line: &str) -> Option<(usize, TestResult, &str)> {
    let text = line.trim_start_matches(' ');
    let indent = line.len() - text.len();
    let (result, rest) = text.strip_prefix("--- ")?.split_once(": ")?;
    let result = match result {
        "PASS" => TestResult::Passed,
        "FAIL" => TestResult::Failed,
        "SKIP" => TestResult::Skipped,
        _ => return None,
    };
    let (name, time) = rest.strip_suffix(')')?.rsplit_once(" (")?;
    let is_whole = indent.is_multiple_of(4) && is_time(time) && !name.is_empty() && !name.contains(' ');
    is_whole.then_some((indent / 4, result, name))
}

enum Package<'l> {
    Passed(&'l str),
    Failed(&'l str),
    /// There was nothing to run.
    Empty,
}

/// `ok  \texample.com/calc\t0.003s`, `FAIL\texample.com/calc [build failed]`
fn package(line: &str) -> Option<Package<'_>> {
    let (verdict, rest) = line.split_once('\t')?;
    let (name, details) = rest.split_once(['\t', ' ']).unwrap_or((rest, ""));
    let (time, more) = details.split_once('\t').unwrap_or((details, ""));
    let time = time.trim();
    let is_timed = is_time(time.split(' ').next().unwrap_or_default()) || time.starts_with("(cached)");
    match verdict.trim_end() {
        "ok" if is_timed && (more.contains("[no tests to run]") || details.contains("[no tests to run]")) => Some(Package::Empty),
        "ok" if is_timed => Some(Package::Passed(name)),
        "FAIL" if is_timed || matches!(details, "[build failed]" | "[setup failed]") => Some(Package::Failed(name)),
        "?" if details.contains("[no test files]") => Some(Package::Empty),
        _ => None,
    }
}
