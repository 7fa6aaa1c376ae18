//! The language of the table: a pattern is the line as it is printed, with holes in braces.
//!
//! | hole | takes |
//! | --- | --- |
//! | `{passed}`, `{failed}`, `{skipped}` | a number of tests |
//! | `{ran}` | a number of tests of which those passed that did not fail and were not skipped |
//! | `{total}` | the number that all other tests of the line must add up to |
//! | `{number}` | a number that counts nothing |
//! | `{counts}` | the tool's list |
//! | `{time}` | `0.12s`, `3ms` |
//! | `{spaces}` | spaces, if there are any |
//! | `{name}` | everything up to the last place where the text after the hole stands |
//!
//! No hole needs a second try, so reading takes time in proportion to the line, whatever the line.

use whatif_types::experiment::TestCounts;

use super::super::form::{is_time, whole};
use super::tool::List;

/// What a line said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Said<'l> {
    pub passed: u64,
    pub failed: u64,
    pub skipped: u64,
    pub ran: Option<u64>,
    pub name: &'l str,
    total: Option<u64>,
}

/// None if the line does not have the whole form.
pub fn read<'l>(pattern: &str, list: &List, line: &'l str) -> Option<Said<'l>> {
    let (said, rest) = Said::default().begin(pattern, list, line)?;
    (rest.is_empty() && said.adds_up()).then_some(said)
}

impl<'l> Said<'l> {
    /// Also what is left of the text.
    fn begin(mut self, pattern: &str, list: &List, text: &'l str) -> Option<(Self, &'l str)> {
        // Text and holes take turns.
        let mut parts = pattern.split(['{', '}']);
        let mut rest = text.strip_prefix(parts.next()?)?;
        while let Some(hole) = parts.next() {
            let after = parts.next()?;
            (self, rest) = self.fill(hole, after, list, rest)?;
            rest = rest.strip_prefix(after)?;
        }
        Some((self, rest))
    }

    fn fill(mut self, hole: &str, after: &str, list: &List, text: &'l str) -> Option<(Self, &'l str)> {
        let rest = match hole {
            "counts" => return self.list(list, text),
            "name" => {
                let end = if after.is_empty() { text.len() } else { text.rfind(after)? };
                let (name, rest) = text.split_at(end);
                self.name = name;
                rest
            }
            "spaces" => text.trim_start(),
            "time" => {
                let (time, rest) = split_where_not(text, |c| c.is_ascii_alphanumeric() || c == '.');
                is_time(time).then_some(rest)?
            }
            _ => {
                let (number, rest) = split_where_not(text, |c| c.is_ascii_digit());
                self.number(hole, whole(number)?)?;
                rest
            }
        };
        Some((self, rest))
    }

    fn list(self, list: &List, text: &'l str) -> Option<(Self, &'l str)> {
        let item = |said: Self, text| list.items.iter().find_map(|item| said.begin(item, &List::NONE, text));
        let (mut said, mut rest) = item(self, text)?;
        while let Some(longer) = rest.strip_prefix(list.between).and_then(|text| item(said, text)) {
            (said, rest) = longer;
        }
        Some((said, rest))
    }

    fn number(&mut self, hole: &str, number: u64) -> Option<()> {
        let sum = match hole {
            "passed" => &mut self.passed,
            "failed" => &mut self.failed,
            "skipped" => &mut self.skipped,
            "ran" => self.ran.insert(0),
            "total" => self.total.insert(0),
            "number" => return Some(()),
            _ => return None,
        };
        *sum = sum.checked_add(number)?;
        Some(())
    }

    fn adds_up(&self) -> bool {
        let sum = self.passed.checked_add(self.failed).and_then(|sum| sum.checked_add(self.skipped));
        self.total.is_none() || self.total == sum
    }

    pub fn counts(&self) -> TestCounts {
        TestCounts { passed: self.passed, failed: self.failed, skipped: self.skipped, ..TestCounts::default() }
    }
}

fn split_where_not(text: &str, belongs: impl Fn(char) -> bool) -> (&str, &str) {
    text.split_at(text.find(|c| !belongs(c)).unwrap_or(text.len()))
}
