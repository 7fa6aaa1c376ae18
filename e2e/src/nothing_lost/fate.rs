//! How a command is tried: undisturbed, killed by the clock, or with a reading call that fails.

use std::process::Stdio;
use std::time::Duration;

use super::life::Life;
use crate::{Fault, Outcome, Point};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Undisturbed,
    /// `kill -9` after so many microseconds.
    Killed(u64),
    /// The so many-th of these reading calls fails.
    Error {
        call: &'static str,
        number: usize,
        error: &'static str,
    },
}

const READING_CALLS: [&str; 7] = ["statx", "openat", "openat2", "getdents64", "read", "lgetxattr", "llistxattr"];
const ERRORS: [&str; 4] = ["EIO", "EMFILE", "EACCES", "ENOMEM"];

impl Life<'_> {
    /// Runs a command, undisturbed or not. Nothing is known of the outcome of one that was killed; what it left was recovered.
    pub(super) fn try_out(&mut self, arguments: &[&str]) -> (Option<Outcome>, Fate) {
        let fate = self.fate();
        match fate {
            Fate::Undisturbed => (Some(self.whatif(arguments)), fate),
            Fate::Killed(after) => {
                self.note(format!("{} (killed after {after} µs)", arguments.join(" ")));
                let call = self.w.whatif(arguments.iter().copied()).cwd(&self.project);
                let mut child = call.streams(Stdio::null(), Stdio::null(), Stdio::null()).spawn();
                std::thread::sleep(Duration::from_micros(after));
                let _ = child.kill();
                let _ = child.wait();
                let recovered = self.whatif(&["ls"]);
                self.must_work(&recovered);
                (None, fate)
            }
            Fate::Error { call, number, error } => {
                self.note(format!("{} ({call} {number} fails with {error})", arguments.join(" ")));
                let point = Point { call: call.to_owned(), number };
                let outcome = self.w.with_fault(&point, Fault::Error(error), arguments).cwd(&self.project).go();
                self.note(format!("  → {}", outcome.code));
                let recovered = self.whatif(&["ls"]);
                self.must_work(&recovered);
                (Some(outcome), fate)
            }
        }
    }

    fn fate(&mut self) -> Fate {
        match self.random.below(12) {
            0 | 1 => Fate::Killed(self.random.below(40_000) as u64),
            2 | 3 => Fate::Error {
                call: READING_CALLS[self.random.below(READING_CALLS.len())],
                number: 1 + self.random.below(60),
                error: ERRORS[self.random.below(ERRORS.len())],
            },
            _ => Fate::Undisturbed,
        }
    }
}
