//! What enforcing limits adds to a run.

use super::figure::{Bar, Figure, Ratio, Unit};
use super::measure::{Contender, interleaved};
use super::peers::remove_all;
use super::report::Report;
use super::scratch::Scratch;
use crate::failure::Failure;

const PLAIN: &str = "run -- true";
const LIMITED: [(&str, &str); 3] = [
    ("run --memory --pids --cpus", "run --memory 512M --pids 200 --cpus 1 -- true"),
    ("run --disk --inodes", "run --disk 1G --inodes 10000 -- true"),
    (
        "run with every limit",
        "run --memory 512M --pids 200 --cpus 1 --disk 1G --inodes 10000 --timeout 1m --ttl 1h --idle 1h -- true",
    ),
];

/// The project's promise about what limits cost.
const BAR: Bar = Bar::ValueAtMost(0.5);

pub fn measure(scratch: &Scratch, rounds: usize, report: &mut Report) -> Result<(), Failure> {
    let command = |line: &'static str| move |_| scratch.whatif(&line.split(' ').collect::<Vec<_>>());
    let mut contenders = vec![Contender { label: PLAIN.to_owned(), command: Box::new(command(PLAIN)) }];
    for (label, line) in LIMITED {
        contenders.push(Contender { label: label.to_owned(), command: Box::new(command(line)) });
    }
    let samples = interleaved(scratch, &contenders, rounds)?;
    let plain = samples[0].returned.median_ms();
    let mut figures = vec![Figure { p90: Some(samples[0].returned.p90_ms()), ..Figure::new(PLAIN, plain, Unit::Milliseconds) }];
    for (contender, sample) in contenders.iter().zip(&samples).skip(1) {
        let value = sample.returned.median_ms();
        figures.push(Figure {
            p90: Some(sample.returned.p90_ms()),
            ratio: Some(Ratio { to: PLAIN.to_owned(), value: value / plain }),
            ..Figure::new(&contender.label, value, Unit::Milliseconds)
        });
        figures.push(Figure {
            bar: Some(BAR),
            ..Figure::new(format!("{}: more than without", contender.label), value - plain, Unit::Milliseconds)
        });
    }
    report.group("limits", figures, Vec::new());
    remove_all(scratch)
}
