//! The person in front of the terminal, who is asked before anything becomes real.

use std::io::{BufRead, IsTerminal, Write};

use whatif_engine::changes::checks::CheckResult;
use whatif_engine::changes::gate::{Approver, Question};

use crate::apply_report::show_plan;
use crate::commands::undo::show_undo;
use crate::output::{Output, Style, counted, printable, visible_path};

/// The last lines of a failed check say why.
const MOST_LINES: usize = 15;

#[derive(Debug)]
pub struct Person<'a> {
    output: &'a Output,
    /// Whether they were shown what is planned.
    has_seen: bool,
    lists_all: bool,
}

impl<'a> Person<'a> {
    #[must_use]
    pub fn new(output: &'a Output) -> Self {
        Self { output, has_seen: false, lists_all: false }
    }

    /// Shows every path that is planned, however many there are.
    #[must_use]
    pub fn listing_all(self, lists_all: bool) -> Self {
        Self { lists_all, ..self }
    }

    fn show(&mut self, question: Question<'_>) {
        if !std::mem::replace(&mut self.has_seen, true) {
            match question {
                Question::Apply(prepared) | Question::Risky(prepared, _) => show_plan(prepared, self.output),
                Question::Undo(prepared) => show_undo(prepared, self.lists_all, self.output),
            }
        }
    }
}

impl Approver for Person<'_> {
    fn answer(&mut self, question: Question<'_>) -> Option<bool> {
        if self.output.json || !(std::io::stdin().is_terminal() && std::io::stderr().is_terminal()) {
            return None;
        }
        self.show(question);
        Some(agreed(&match question {
            Question::Risky(prepared, changes) => {
                let (count, name) = (counted(changes as u64, "change"), &prepared.sandbox.name);
                format!("Also take what needs its own approval ({count} from {name})?")
            }
            Question::Apply(prepared) => {
                let (project, name) = (visible_path(prepared.project()), &prepared.sandbox.name);
                format!("Apply {} from {name} to {project}?", counted(prepared.steps.len() as u64, "change"))
            }
            Question::Undo(prepared) => {
                let (count, page) = (counted(prepared.paths.len() as u64, "change"), &prepared.page);
                format!("Take back {count} of apply {} from {}?", page.id, printable(&page.sandbox))
            }
        }))
    }

    fn note(&mut self, note: &str) {
        self.output.note(format!("{} {}", self.output.paint_note(Style::Yellow, "whatif:"), printable(note)));
    }

    fn checked(&mut self, result: &CheckResult) {
        let (output, name) = (self.output, printable(&result.check.name));
        if result.has_passed() {
            output.note(format!("{} check '{name}' passed", output.paint_note(Style::Green, "✓")));
            return;
        }
        output.note(format!("{} check '{name}' failed", output.paint_note(Style::Red, "✗")));
        let lines: Vec<&str> = result.output.lines().collect();
        for line in lines.iter().skip(lines.len().saturating_sub(MOST_LINES)) {
            output.note(format!("  {}", printable(line)));
        }
    }
}

/// Only a clear yes is one.
fn agreed(question: &str) -> bool {
    let mut answer = String::new();
    let _ = write!(std::io::stderr(), "{question} [y/N] ");
    let read = std::io::stdin().lock().read_line(&mut answer);
    read.is_ok() && matches!(answer.trim().to_lowercase().as_str(), "y" | "yes")
}
