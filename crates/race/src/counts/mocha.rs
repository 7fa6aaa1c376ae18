//! Mocha: `  3 passing (5ms)`, then `  1 pending` and `  2 failing`, then what failed.

use whatif_types::experiment::TestCounts;

use super::form::{counted, is_time};
use super::{Failures, Format, add};

#[derive(Debug, Default)]
pub struct Mocha {
    sum: Option<TestCounts>,
    state: State,
    failures: Failures,
}

#[derive(Debug, Default)]
enum State {
    #[default]
    Outside,
    /// The counts are being told.
    Counts,
    /// The failures are being told.
    Failures,
    /// A failure's title, part by part, each deeper than the one before.
    Title(String),
}

/// What a title can grow to before it is cut.
const LONGEST_TITLE: usize = 1000;

impl Format for Mocha {
    fn line(&mut self, line: &str) {
        if line.trim().is_empty() {
            return;
        }
        let state = std::mem::take(&mut self.state);
        self.state = match (state, line.strip_prefix("  ")) {
            (_, Some(text)) if passing(text).is_some() => {
                self.count(TestCounts { passed: passing(text).unwrap_or(0), ..TestCounts::default() });
                State::Counts
            }
            (State::Counts, Some(text)) => match counted(text) {
                Some((skipped, "pending")) => {
                    self.count(TestCounts { skipped, ..TestCounts::default() });
                    State::Counts
                }
                Some((failed, "failing")) => {
                    self.count(TestCounts { failed, ..TestCounts::default() });
                    State::Failures
                }
                _ => State::Outside,
            },
            (State::Failures, Some(text)) => self.title(String::new(), numbered(text)),
            (State::Title(begun), Some(text)) if text.starts_with(' ') => self.title(begun, Some(text.trim())),
            (State::Title(_), _) => State::Failures,
            (State::Failures, None) => State::Failures,
            (State::Outside | State::Counts, _) => State::Outside,
        };
    }

    fn finish(self: Box<Self>) -> Option<TestCounts> {
        let Self { sum, failures, .. } = *self;
        sum.map(|sum| TestCounts { failures: failures.into(), ..sum })
    }
}

impl Mocha {
    /// The last part of a title ends with a colon.
    fn title(&mut self, begun: String, part: Option<&str>) -> State {
        let Some(part) = part else { return State::Failures };
        let title = if begun.is_empty() { part.to_owned() } else { format!("{begun} {part}") };
        match title.strip_suffix(':') {
            Some(name) => {
                self.failures.add(name);
                State::Failures
            }
            None if title.len() > LONGEST_TITLE => State::Failures,
            None => State::Title(title),
        }
    }

    fn count(&mut self, counts: TestCounts) {
        add(self.sum.get_or_insert_with(|| TestCounts { format: "mocha".to_owned(), ..TestCounts::default() }), counts);
    }
}

/// `3 passing (5ms)`
fn passing(text: &str) -> Option<u64> {
    let (number, rest) = counted(text)?;
    is_time(rest.strip_prefix("passing (")?.strip_suffix(')')?).then_some(number)
}

/// `2) title`
fn numbered(text: &str) -> Option<&str> {
    let (number, title) = text.split_once(") ")?;
    super::form::whole(number).map(|_| title)
}
