//! Counts out of a JUnit report, whoever wrote it.
//!
//! The numbers that suites claim are not looked at: each test case is counted. Entities of the document's own are never
//! expanded, and nothing is kept but what is open.

use quick_xml::events::{BytesStart, Event};
use quick_xml::{Error, Reader};
use whatif_types::experiment::TestCounts;
use whatif_types::{Explain, Kind};

use super::Failures;

const LARGEST: usize = 64 << 20;
const DEEPEST: usize = 256;
/// Who has more attributes before its name has no name.
const MOST_ATTRIBUTES: usize = 64;

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum JunitError {
    #[error("the report is not XML: {why}")]
    NotXml { why: String },
    #[error("the report ends too early")]
    Truncated,
    #[error("the report is XML, but not of JUnit's kind: it begins with '{found}' instead of 'testsuites' or 'testsuite'")]
    NotJunit { found: String },
    #[error("the report is empty")]
    Empty,
    #[error("the report has more than {} MiB", LARGEST >> 20)]
    TooLarge,
    #[error("the report has elements in more than {DEEPEST} others")]
    TooDeep,
}

impl Explain for JunitError {
    fn code(&self) -> &'static str {
        "junit_report"
    }

    fn kind(&self) -> Kind {
        Kind::Invalid
    }
}

pub fn count(xml: &[u8]) -> Result<TestCounts, JunitError> {
    if xml.len() > LARGEST {
        return Err(JunitError::TooLarge);
    }
    // What is not UTF-8 are letters in names and messages; they need not be right to be counted.
    let text = String::from_utf8_lossy(xml);
    let mut reader = Reader::from_str(&text);
    reader.config_mut().allow_dangling_amp = true;
    let mut report = Report::default();
    loop {
        match reader.read_event().map_err(|error| not_xml(&error))? {
            Event::Start(start) => report.open(&start)?,
            Event::Empty(start) => {
                report.open(&start)?;
                report.close();
            }
            Event::End(_) => report.close(),
            Event::Eof => return report.finish(),
            _ => {}
        }
    }
}

fn not_xml(error: &Error) -> JunitError {
    match error {
        Error::Syntax(_) => JunitError::Truncated,
        _ => JunitError::NotXml { why: error.to_string().chars().filter(|c| !c.is_control()).take(200).collect() },
    }
}

#[derive(Debug, Default)]
struct Report {
    open: Vec<Element>,
    has_root: bool,
    counts: TestCounts,
    failures: Failures,
}

#[derive(Debug)]
enum Element {
    Suite { name: String },
    Case { name: String, result: CaseResult },
    Other,
}

/// In this order one outweighs the other: a test that is skipped may tell how it failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum CaseResult {
    Passed,
    Failed,
    Skipped,
}

impl Report {
    fn open(&mut self, start: &BytesStart) -> Result<(), JunitError> {
        if self.open.len() >= DEEPEST {
            return Err(JunitError::TooDeep);
        }
        let name = start.local_name();
        let kind = name.into_inner();
        if !self.has_root && !matches!(kind, "testsuites" | "testsuite") {
            return Err(JunitError::NotJunit { found: kind.escape_debug().take(60).collect() });
        }
        self.has_root = true;
        let element = match (kind, self.open.last_mut()) {
            ("testsuites" | "testsuite", None | Some(Element::Suite { .. })) => Element::Suite { name: attribute(start, "name") },
            ("testcase", Some(Element::Suite { .. })) => case(start),
            ("failure" | "error", Some(Element::Case { result, .. })) => {
                *result = (*result).max(CaseResult::Failed);
                Element::Other
            }
            ("skipped", Some(Element::Case { result, .. })) => {
                *result = CaseResult::Skipped;
                Element::Other
            }
            // What goes wrong around the tests.
            ("failure" | "error", Some(Element::Suite { name })) => {
                self.counts.failed = self.counts.failed.saturating_add(1);
                self.failures.add(name);
                Element::Other
            }
            _ => Element::Other,
        };
        self.open.push(element);
        Ok(())
    }

    fn close(&mut self) {
        if let Some(Element::Case { name, result }) = self.open.pop() {
            let sum = match result {
                CaseResult::Passed => &mut self.counts.passed,
                CaseResult::Failed => &mut self.counts.failed,
                CaseResult::Skipped => &mut self.counts.skipped,
            };
            *sum = sum.saturating_add(1);
            if result == CaseResult::Failed {
                self.failures.add(&name);
            }
        }
    }

    fn finish(self) -> Result<TestCounts, JunitError> {
        match (self.has_root, self.open.is_empty()) {
            (false, _) => Err(JunitError::Empty),
            (true, false) => Err(JunitError::Truncated),
            (true, true) => Ok(TestCounts { format: "junit".to_owned(), failures: self.failures.into(), ..self.counts }),
        }
    }
}

fn case(start: &BytesStart) -> Element {
    let (class, own) = (attribute(start, "classname"), attribute(start, "name"));
    let name = if class.is_empty() || own.starts_with(&class) { own } else { format!("{class}.{own}") };
    // GoogleTest says so of those that were filtered out or disabled.
    let is_run = attribute(start, "status") != "notrun" && attribute(start, "result") != "skipped";
    Element::Case { name, result: if is_run { CaseResult::Passed } else { CaseResult::Skipped } }
}

/// Nothing if it is not there. What cannot be unescaped stays as it is.
fn attribute(start: &BytesStart, name: &str) -> String {
    // To look whether one is there twice takes long if there are many.
    let mut attributes = start.attributes();
    let found = attributes.with_checks(false).take(MOST_ATTRIBUTES).flatten().find(|attribute| attribute.key.into_inner() == name);
    let raw = found.map(|attribute| attribute.value).unwrap_or_default();
    let raw: String = raw.chars().take(1000).collect();
    quick_xml::escape::unescape(&raw).map_or_else(|_| raw.clone(), |text| text.into_owned())
}

#[cfg(test)]
mod tests;
