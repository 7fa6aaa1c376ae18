//! Snapshot, rollback and fork where much was written: their cost is no matter of that.

use std::process::Command;
use std::time::Instant;

use super::super::figure::{Bar, Figure, Unit};
use super::super::measure::{Times, demand, expect_lines, percentile};
use super::super::report::Report;
use super::super::scratch::Scratch;
use super::{EXEC, Subject, compared, figure};
use crate::failure::Failure;

/// 1 GiB in all, and a little.
const FILES: usize = 100_000;
const FILL: &str = r#"
    for number in $(seq 100); do
        mkdir -p "$1/$number" && head -c 10738000 /dev/zero | split -a 3 -d -b 10738 - "$1/$number/file-" || exit
    done
"#;
/// The promise about each of them, in times of [`EXEC`].
const LIMIT: f64 = 2.0;
/// Rounds before the first that counts.
const WARM_UP: usize = 3;
const FORKS: usize = 100;
const FORK_ROUNDS: usize = 5;
/// So many forks are put to use.
const USED: usize = 20;

const SNAPSHOT: &str = "whatif snapshot NAME";
const ROLLBACK: &str = "whatif rollback NAME LABEL";
const FORK: &str = "whatif fork NAME";
const FORK_LABEL: &str = "whatif fork NAME@LABEL";
/// Before anything was written.
const START: &str = "start";
/// With all that was written.
const FULL: &str = "full";

pub fn measure(scratch: &Scratch, heads: usize, rounds: usize, report: &mut Report) -> Result<(), Failure> {
    frozen(scratch, heads, report)?;
    let name = name(heads - 1);
    let subject = Subject { scratch, name: &name };
    on_top(subject, rounds, report)?;
    forks(subject, report)
}

/// The large head itself is what becomes a layer: it has to be written anew each time.
fn frozen(scratch: &Scratch, heads: usize, report: &mut Report) -> Result<(), Failure> {
    let mut moves = Moves::default();
    for number in 0..heads {
        let name = name(number);
        let subject = Subject { scratch, name: &name };
        demand("whatif new", scratch.whatif(&["new", &name]))?;
        demand(SNAPSHOT, subject.snapshot(START))?;
        for step in 0..3 {
            fill(subject, &format!("large-{step}"))?;
            moves.execs.add(subject.time(EXEC, subject.exec(&["true"]))?);
            match step {
                0 => moves.rollbacks.add(subject.time(ROLLBACK, rollback(subject, START))?),
                1 => moves.forks.add(subject.time(FORK, fork(subject, &name, &format!("{name}-fork")))?),
                _ => moves.snapshots.add(subject.time(SNAPSHOT, subject.snapshot(FULL))?),
            }
        }
        // The first of them was rolled back, the others are there.
        expect_lines("find in a sandbox", subject.exec(&["sh", "-c", "find large-* -type f"]), "large-", 2 * FILES)?;
    }
    report.group(format!("1 GiB in {FILES} files in the head, {heads} heads each"), moves.figures(), Vec::new());
    Ok(())
}

/// The usual case: the most of it is in layers, and little was written since.
fn on_top(subject: Subject, rounds: usize, report: &mut Report) -> Result<(), Failure> {
    let mut moves = Moves::default();
    let mut forks_of_label = Times::default();
    for round in 0..WARM_UP + rounds {
        let mut turns = [
            (EXEC, subject.exec(&["true"]), &mut moves.execs),
            (SNAPSHOT, subject.snapshot(&format!("round-{round}")), &mut moves.snapshots),
            (ROLLBACK, rollback(subject, FULL), &mut moves.rollbacks),
            (FORK, fork(subject, subject.name, &format!("fork-{round}")), &mut moves.forks),
            (
                FORK_LABEL,
                fork(subject, &format!("{}@{FULL}", subject.name), &format!("fork-of-label-{round}")),
                &mut forks_of_label,
            ),
        ];
        let who_begins = round % turns.len();
        turns.rotate_left(who_begins);
        for (label, command, times) in turns {
            subject.write(&format!("{label} {round}"))?;
            let time = subject.time(label, command)?;
            if round >= WARM_UP {
                times.add(time);
            }
        }
    }
    let mut figures = moves.figures();
    figures.push(compared(FORK_LABEL, &forks_of_label, (EXEC, &moves.execs), LIMIT));
    report.group(format!("the same in layers, after a small write, {rounds} rounds"), figures, Vec::new());
    Ok(())
}

fn forks(subject: Subject, report: &mut Report) -> Result<(), Failure> {
    let source = format!("{}@{FULL}", subject.name);
    let mut rates = Vec::new();
    for round in 0..FORK_ROUNDS {
        let mut command = fork(subject, &source, &format!("many-{round}"));
        command.args(["--count", &FORKS.to_string()]);
        rates.push(FORKS as f64 / subject.time(FORK_LABEL, command)?.as_secs_f64());
    }
    // A fork starts when it is first used; one that does not would have been made quickly for nothing.
    let (mut first, mut second) = (Times::default(), Times::default());
    for number in 1..=USED {
        let name = format!("many-0-{number}");
        let fork = Subject { name: &name, ..subject };
        first.add(fork.time("the first exec in a fork", fork.exec(&["test", "-d", "large-2"]))?);
        second.add(fork.time("the second exec in a fork", fork.exec(&["test", "-d", "large-2"]))?);
    }
    let rate = Figure::new(format!("fork NAME@LABEL --count {FORKS}"), percentile(&rates, 50), Unit::PerSecond);
    let figures = vec![
        Figure { bar: Some(Bar::ValueAtLeast(100.0)), ..rate },
        figure("first exec in a fork", &first),
        figure("second exec in a fork", &second),
    ];
    report.group(format!("forks of one snapshot, {FORK_ROUNDS} rounds"), figures, Vec::new());
    Ok(())
}

#[derive(Default)]
struct Moves {
    execs: Times,
    snapshots: Times,
    rollbacks: Times,
    forks: Times,
}

impl Moves {
    fn figures(&self) -> Vec<Figure> {
        let of = |label, times| compared(label, times, (EXEC, &self.execs), LIMIT);
        let moves = [of(SNAPSHOT, &self.snapshots), of(ROLLBACK, &self.rollbacks), of(FORK, &self.forks)];
        [figure(EXEC, &self.execs)].into_iter().chain(moves).collect()
    }
}

/// Writes a large directory, and waits until it is on the disk.
fn fill(subject: Subject, directory: &str) -> Result<(), Failure> {
    let started = Instant::now();
    demand("filling a head", subject.exec(&["sh", "-c", FILL, "sh", directory]))?;
    expect_lines("find in a sandbox", subject.exec(&["find", directory, "-type", "f"]), directory, FILES)?;
    super::say(&format!("  a head was filled in {:.1} s", started.elapsed().as_secs_f64()));
    subject.scratch.flush()
}

fn rollback(subject: Subject, label: &str) -> Command {
    subject.scratch.whatif(&["rollback", subject.name, label])
}

fn fork(subject: Subject, source: &str, new: &str) -> Command {
    subject.scratch.whatif(&["fork", source, new])
}

fn name(number: usize) -> String {
    format!("large-{number}")
}
