//! `go test -json`: one event a line.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::{LONGEST_NAME, Tally, TestResult};

/// Tests that began and did not end yet, and packages with a failure.
#[derive(Debug, Default)]
pub struct Json {
    running: BTreeMap<(String, String), Running>,
    failed: BTreeSet<String>,
}

#[derive(Debug, Default)]
struct Running {
    has_parts: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Event<'l> {
    #[serde(borrow)]
    action: Cow<'l, str>,
    #[serde(borrow)]
    package: Cow<'l, str>,
    #[serde(borrow)]
    test: Option<Cow<'l, str>>,
}

/// More at the same time are counted without knowing what is part of what.
const MOST: usize = 10_000;

impl Json {
    pub fn line(&mut self, line: &str, tally: &mut Tally) {
        if !line.contains("\"Action\":") {
            return;
        }
        let Ok(Event { action, package, test }) = serde_json::from_str::<Event>(line) else { return };
        if package.len() > LONGEST_NAME || test.as_ref().is_some_and(|test| test.len() > LONGEST_NAME) {
            return;
        }
        let result = match &*action {
            "pass" => TestResult::Passed,
            "fail" => TestResult::Failed,
            "skip" => TestResult::Skipped,
            "run" => {
                if let Some(test) = test {
                    self.began(&package, &test);
                }
                return;
            }
            _ => return,
        };
        match test {
            Some(test) => self.ended(&package, &test, result, tally),
            None => self.package_ended(&package, result, tally),
        }
    }

    fn began(&mut self, package: &str, test: &str) {
        if let Some((whole, _)) = test.rsplit_once('/')
            && let Some(whole) = self.running.get_mut(&(package.to_owned(), whole.to_owned()))
        {
            whole.has_parts = true;
        }
        if self.running.len() < MOST {
            self.running.insert((package.to_owned(), test.to_owned()), Running::default());
        }
    }

    fn ended(&mut self, package: &str, test: &str, result: TestResult, tally: &mut Tally) {
        if result == TestResult::Failed && self.failed.len() < MOST {
            self.failed.insert(package.to_owned());
        }
        let has_parts = self.running.remove(&(package.to_owned(), test.to_owned())).is_some_and(|running| running.has_parts);
        if !has_parts {
            tally.count(result, test);
        }
    }

    /// One that fails without a test that does could not be built, or ended before its tests did.
    fn package_ended(&mut self, package: &str, result: TestResult, tally: &mut Tally) {
        tally.is_go = true;
        if !self.failed.remove(package) && result == TestResult::Failed {
            tally.count(result, package);
        }
        let begin = (package.to_owned(), String::new());
        let left: Vec<_> = self.running.range(begin..).map(|(test, _)| test.clone()).take_while(|(of, _)| of == package).collect();
        for test in left {
            self.running.remove(&test);
        }
    }
}
