//! Snapshots: what they cost, what they cost those who work on top of them, and whether that stays so.
//!
//! Nothing is deleted in between: where many files were deleted a moment ago, the disk is slow to make new ones.

mod bare;
mod inside;
mod large_head;
mod many;
mod workload;

use std::process::Command;
use std::time::Duration;

use super::figure::{Bar, Figure, Ratio, Unit};
use super::measure::{Times, demand, timed};
use super::report::Report;
use super::say;
use super::scratch::Scratch;
use crate::failure::Failure;

/// How much is measured.
pub struct Effort {
    large_heads: usize,
    rounds: usize,
    inside_rounds: usize,
    many: usize,
}

pub const QUICK: Effort = Effort { large_heads: 3, rounds: 30, inside_rounds: 9, many: 1_000 };
pub const FULL: Effort = Effort { large_heads: 5, rounds: 100, inside_rounds: 25, many: 10_000 };

/// What everything else is compared with.
const EXEC: &str = "whatif exec NAME -- true";
/// Longer than what a command leaves to the background, and [`Scratch::settle`] does not see, takes on a quiet machine.
const PAUSE: Duration = Duration::from_millis(3);

pub fn measure(scratch: &Scratch, effort: &Effort, report: &mut Report) -> Result<(), Failure> {
    say(&format!("work inside, {} rounds", effort.inside_rounds));
    inside::measure(scratch, effort.inside_rounds, report)?;
    let many = many::wanted()?.unwrap_or(effort.many);
    say(&format!("{many} snapshots of one sandbox"));
    many::measure(scratch, many, report)?;
    say(&format!("{} large heads, {} rounds on top of the last", effort.large_heads, effort.rounds));
    large_head::measure(scratch, effort.large_heads, effort.rounds, report)
}

/// A sandbox to take snapshots of.
#[derive(Clone, Copy)]
struct Subject<'a> {
    scratch: &'a Scratch,
    name: &'a str,
}

impl Subject<'_> {
    fn exec(self, command: &[&str]) -> Command {
        self.scratch.whatif(&[&["exec", self.name, "--"], command].concat())
    }

    fn snapshot(self, label: &str) -> Command {
        self.scratch.whatif(&["snapshot", self.name, label])
    }

    /// A change, so that there is something to freeze.
    fn write(self, what: &str) -> Result<(), Failure> {
        demand("writing in a sandbox", self.exec(&["sh", "-c", r#"echo "$1" > written"#, "sh", what]))
    }

    /// The time until a command returned that has the machine to itself.
    fn time(self, label: &str, command: Command) -> Result<Duration, Failure> {
        std::thread::sleep(PAUSE);
        Ok(timed(self.scratch, label, command)?.0)
    }
}

fn figure(label: &str, times: &Times) -> Figure {
    Figure { p90: Some(times.p90_ms()), ..Figure::new(label, times.median_ms(), Unit::Milliseconds) }
}

/// The same beside what it shall not exceed by more than `limit`.
fn compared(label: &str, times: &Times, to: (&str, &Times), limit: f64) -> Figure {
    let ratio = Some(Ratio { to: to.0.to_owned(), value: times.median_ms() / to.1.median_ms() });
    Figure { ratio, bar: Some(Bar::RatioAtMost(limit)), ..figure(label, times) }
}
