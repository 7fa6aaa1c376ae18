//! Races: what it costs to have attempts run and judged, beside running the same commands bare, as many at a time.

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use super::figure::{Bar, Figure, Ratio, Unit};
use super::measure::{Times, demand, timed};
use super::report::Report;
use super::scratch::Scratch;
use crate::failure::Failure;
use crate::programs;

const RACE: &str = "race of 8 attempts, 2 at a time";
const BARE: &str = "xargs -P2";
/// The project's promise about what a race adds to the work itself.
const BAR: Bar = Bar::RatioAtMost(1.15);

const ATTEMPTS: usize = 8;
const TRIVIAL: usize = 50;
/// So long an attempt works.
const WORK_SECONDS: f64 = 1.0;
/// What is tried to learn how fast this machine counts.
const SAMPLE: f64 = 5e6;

pub fn measure(scratch: &Scratch, rounds: usize, report: &mut Report) -> Result<(), Failure> {
    let place = Place { scratch, project: scratch.trees().join("raced") };
    scratch.make_owned(&place.project)?;
    let work = place.work()?;
    let (mut raced, mut bare) = (Times::default(), Times::default());
    for round in 0..rounds {
        // Who begins changes, so that nobody always has the machine that the other one warmed.
        for turn in 0..2 {
            if (round + turn) % 2 == 0 {
                raced.add(place.race(RACE, place.attempts(&work))?);
            } else {
                bare.add(timed(scratch, BARE, place.bare(&work))?.0);
            }
        }
    }
    let mut trivial = Times::default();
    for _ in 0..rounds {
        trivial.add(place.race("race of trivial attempts", place.trivial())?);
    }
    let ratio = Some(Ratio { to: BARE.to_owned(), value: raced.median_ms() / bare.median_ms() });
    let figures = vec![
        Figure { p90: Some(bare.p90_ms()), ..Figure::new(BARE, bare.median_ms(), Unit::Milliseconds) },
        Figure { p90: Some(raced.p90_ms()), ratio, bar: Some(BAR), ..Figure::new(RACE, raced.median_ms(), Unit::Milliseconds) },
        Figure::new(format!("race of {TRIVIAL} trivial attempts, each"), trivial.median_ms() / TRIVIAL as f64, Unit::Milliseconds),
    ];
    report.group("races", figures, Vec::new());
    Ok(())
}

/// A project to race in.
struct Place<'a> {
    scratch: &'a Scratch,
    project: PathBuf,
}

impl Place<'_> {
    /// A command for a shell that keeps a processor busy for as long as an attempt shall.
    fn work(&self) -> Result<String, Failure> {
        let count = |times: f64| format!("awk 'BEGIN {{ while (i < {times:.0}) i++ }}'");
        let started = Instant::now();
        demand("awk", self.shell(&count(SAMPLE)))?;
        let times = SAMPLE * WORK_SECONDS / started.elapsed().as_secs_f64();
        Ok(format!("{}; echo done > result", count(times)))
    }

    /// The time until it returned; what it leaves is taken away in nobody's time.
    fn race(&self, label: &str, command: Command) -> Result<std::time::Duration, Failure> {
        let (returned, _) = timed(self.scratch, label, command)?;
        demand("whatif race rm", self.here(self.scratch.whatif(&["race", "rm", "--all"])))?;
        self.scratch.settle()?;
        Ok(returned)
    }

    fn attempts(&self, work: &str) -> Command {
        let mut command = self.here(self.scratch.whatif(&["race", "--check", "test -e result", "--jobs", "2"]));
        command.args([work; ATTEMPTS]);
        command
    }

    fn trivial(&self) -> Command {
        let count = TRIVIAL.to_string();
        let arguments = ["race", "--check", "true", "--jobs", "2", "--count", &count, "--", "sh", "-c", "echo done > result"];
        self.here(self.scratch.whatif(&arguments))
    }

    /// The same commands, each with its check, and nothing around them.
    fn bare(&self, work: &str) -> Command {
        let mut command = self.shell(&format!("seq {ATTEMPTS} | xargs -P2 -I{{}} sh -c \"$0\" && rm result"));
        command.arg(format!("{work}; test -e result"));
        command
    }

    fn shell(&self, script: &str) -> Command {
        let mut command = self.here(self.scratch.command(&programs::find("sh").unwrap_or_else(|| PathBuf::from("/bin/sh"))));
        command.args(["-c", script]);
        command
    }

    fn here(&self, mut command: Command) -> Command {
        command.current_dir(&self.project);
        command
    }
}
