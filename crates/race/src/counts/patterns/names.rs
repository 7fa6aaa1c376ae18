//! Names of tests that failed, where and how the tool tells them.

use std::collections::BTreeSet;

use super::super::Failures;
use super::language;
use super::tool::{List, Meaning, Tool, Where};

#[derive(Debug)]
pub struct Names {
    tool: &'static Tool,
    /// Names stand in the lines to come, or in the next one.
    is_listing: bool,
    title: Option<Title>,
    /// The file whose failures are being told.
    file: String,
    /// A set, as a file can be told twice.
    broken: BTreeSet<String>,
    failures: Failures,
}

/// The part of a title that has come so far, and how deep it began.
#[derive(Debug)]
struct Title {
    text: String,
    indent: usize,
}

/// What a title can grow to before it is given up.
const LONGEST_TITLE: usize = 1000;
/// In characters.
const LONGEST_FILE: usize = 200;
const MOST_BROKEN: usize = 1000;

impl Names {
    pub fn of(tool: &'static Tool) -> Self {
        let (file, broken, failures) = (String::new(), BTreeSet::new(), Failures::default());
        Self { tool, is_listing: false, title: None, file, broken, failures }
    }

    pub fn line(&mut self, line: &str) {
        if !self.is_listed(line) || line.trim().is_empty() {
            return;
        }
        let indent = line.len() - line.trim_start().len();
        if let Some(mut title) = self.title.take()
            && indent > title.indent
        {
            title.text.push(' ');
            title.text.push_str(line.trim());
            return self.title(title);
        }
        let said = |pattern| language::read(pattern, &List::NONE, line);
        let found = self.tool.names.iter().find_map(|(pattern, meaning)| Some((said(pattern)?.name, meaning)));
        let Some((name, meaning)) = found else { return };
        match meaning {
            Meaning::Test => self.failures.add(name),
            Meaning::Title => self.title(Title { text: name.trim().to_owned(), indent }),
            Meaning::File => self.file = name.trim().chars().take(LONGEST_FILE).collect(),
            Meaning::BrokenFile => {
                self.failures.add(&self.file);
                if self.broken.len() < MOST_BROKEN {
                    self.broken.insert(self.file.clone());
                }
            }
            Meaning::Nothing => {}
        }
    }

    fn is_listed(&mut self, line: &str) -> bool {
        match self.tool.names_stand {
            Where::Anywhere => true,
            Where::RightAfter(heading) => std::mem::replace(&mut self.is_listing, line == heading),
            Where::After(heading) if line == heading => {
                self.is_listing = true;
                false
            }
            Where::After(_) | Where::AfterSummary => self.is_listing,
        }
    }

    fn title(&mut self, title: Title) {
        match title.text.strip_suffix(':') {
            Some(name) => self.failures.add(name),
            None if title.text.len() <= LONGEST_TITLE => self.title = Some(title),
            None => {}
        }
    }

    /// A summary has ended, which counted so many failures.
    pub fn after_summary(&mut self, failed: u64) {
        if matches!(self.tool.names_stand, Where::AfterSummary) {
            self.is_listing = failed > 0;
        }
    }

    /// How many files could not be run since this was asked before.
    pub fn take_broken(&mut self) -> u64 {
        std::mem::take(&mut self.broken).len() as u64
    }

    pub fn into_failures(self) -> Failures {
        self.failures
    }
}
