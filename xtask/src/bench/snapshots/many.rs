//! A sandbox that has a great many snapshots is as quick to take the next one of as a new one.

use super::super::measure::{Times, demand};
use super::super::report::Report;
use super::super::scratch::Scratch;
use super::{EXEC, Subject, compared, figure};
use crate::failure::Failure;

/// So many are compared at either end.
const ENDS: usize = 50;
/// Taken before the first that counts.
const WARM_UP: usize = 3;
const LIMIT: f64 = 2.0;
/// Takes another number of snapshots, on machines or in minutes that have no time for as many.
const NUMBER: &str = "WHATIF_BENCH_SNAPSHOTS";

/// The number that was asked for, if one was.
pub fn wanted() -> Result<Option<usize>, Failure> {
    let Some(text) = std::env::var_os(NUMBER) else { return Ok(None) };
    match text.to_str().and_then(|text| text.parse().ok()).filter(|&number| number >= 2 * ENDS) {
        Some(number) => Ok(Some(number)),
        None => Err(Failure::Usage(format!("{NUMBER} is not a number of {} or more", 2 * ENDS))),
    }
}

pub fn measure(scratch: &Scratch, number: usize, report: &mut Report) -> Result<(), Failure> {
    let subject = Subject { scratch, name: "many" };
    demand("whatif new", scratch.whatif(&["new", subject.name]))?;
    for taken in 0..WARM_UP {
        subject.write("a warm-up")?;
        demand("whatif snapshot", subject.snapshot(&format!("warm-up-{taken}")))?;
    }
    let (mut first, mut last) = (Ends::default(), Ends::default());
    for taken in 0..number {
        let ends = match taken {
            _ if taken < ENDS => Some(&mut first),
            _ if taken >= number - ENDS => Some(&mut last),
            _ => None,
        };
        subject.write(&taken.to_string())?;
        let snapshot = subject.snapshot(&format!("taken-{taken}"));
        match ends {
            Some(ends) => {
                ends.snapshots.add(subject.time("whatif snapshot", snapshot)?);
                ends.execs.add(subject.time(EXEC, subject.exec(&["true"]))?);
            }
            None => demand("whatif snapshot", snapshot)?,
        }
    }
    let label = |which: &str| format!("{which} {ENDS} of whatif snapshot NAME");
    let (first_label, last_label) = (label("first"), label("last"));
    let figures = vec![
        figure(&first_label, &first.snapshots),
        compared(&last_label, &last.snapshots, (&first_label, &first.snapshots), LIMIT),
        // What the machine has become slower by, or everything but the snapshot.
        figure(&format!("beside the first: {EXEC}"), &first.execs),
        figure(&format!("beside the last: {EXEC}"), &last.execs),
    ];
    report.group(format!("{number} snapshots of one sandbox"), figures, Vec::new());
    Ok(())
}

#[derive(Default)]
struct Ends {
    snapshots: Times,
    execs: Times,
}
