//! Single commands, beside the programs people would use instead.

use std::path::PathBuf;
use std::process::Command;

use super::figure::{Bar, Figure, Ratio, Unit};
use super::keeper::Keeper;
use super::measure::{Contender, Samples, attempt, demand, interleaved};
use super::report::Report;
use super::scratch::Scratch;
use crate::failure::Failure;
use crate::programs;

const FLOOR: &str = "posix_spawn true";
const BWRAP: &str = "bwrap … true";
const RUN: &str = "whatif run -- true";
const EXEC: &str = "whatif exec NAME -- true";
const NSENTER_ALL: &str = "nsenter -a true";
const NSENTER: &str = "nsenter true";

/// The project's promise about a keeper's memory.
pub const KEEPER_BAR: Bar = Bar::ValueAtMost(2048.0);

pub fn measure(scratch: &Scratch, rounds: usize, report: &mut Report) -> Result<(), Failure> {
    demand("whatif new", scratch.whatif(&["new", "living"]))?;
    let keeper = Keeper::of(scratch, "living")?;
    // `rm` of a round takes away what `new` made in the round before, so that their order does not matter.
    demand("whatif new", scratch.whatif(&["new", &made_in(0)]))?;
    let mut contenders = vec![Contender { label: FLOOR.to_owned(), command: Box::new(|_| scratch.command(&truth())) }];
    contenders.extend(ours(scratch));
    let mut skipped = Vec::new();
    for (label, command) in peers(scratch, &keeper) {
        match command.and_then(|command| attempt(command()).map(|()| command)) {
            Ok(command) => contenders.push(Contender { label: label.to_owned(), command: Box::new(move |_| command()) }),
            Err(reason) => skipped.push((label.to_owned(), reason)),
        }
    }
    let samples = interleaved(scratch, &contenders, rounds)?;
    let labelled: Vec<_> = contenders.iter().map(|contender| contender.label.as_str()).zip(&samples).collect();
    report.group("commands", figures(&labelled), skipped);
    remove_all(scratch)
}

type Program<'a> = Result<Box<dyn Fn() -> Command + 'a>, String>;
type Peer<'a> = (&'static str, Program<'a>);

/// What people would run something in instead.
pub fn bwrap(scratch: &Scratch) -> Program<'_> {
    peer(scratch, "bwrap", "--ro-bind / / --dev /dev --proc /proc --unshare-all true".to_owned())
}

fn peer<'a>(scratch: &'a Scratch, program: &'static str, arguments: String) -> Program<'a> {
    let path = programs::find(program).ok_or_else(|| format!("{program} is not installed"))?;
    Ok(Box::new(move || {
        let mut command = scratch.command(&path);
        command.args(arguments.split(' '));
        command
    }))
}

/// Other programs. They need not work here: a user cannot enter every namespace, and not everybody has bwrap.
fn peers<'a>(scratch: &'a Scratch, keeper: &Keeper) -> Vec<Peer<'a>> {
    let peer = |program, arguments| peer(scratch, program, arguments);
    // Only root enters without the sandbox's user namespace; anybody else must, and keeps the identity they have.
    let user = if scratch.uid() == 0 { "" } else { "-U --preserve-credentials " };
    let pid = keeper.pid;
    vec![
        (BWRAP, bwrap(scratch)),
        // With the sandbox's root: what its mount namespace has there instead is empty.
        (NSENTER, peer("nsenter", format!("-t {pid} {user}-m -p -n -i -u -r true"))),
        (NSENTER_ALL, peer("nsenter", format!("-t {pid} -a -r true"))),
    ]
}

fn ours(scratch: &Scratch) -> Vec<Contender<'_>> {
    let contender = |label: &str, arguments: fn(usize) -> Vec<String>| Contender {
        label: label.to_owned(),
        command: Box::new(move |round| scratch.whatif(&arguments(round).iter().map(String::as_str).collect::<Vec<_>>())),
    };
    vec![
        contender(RUN, |_| words("run -- true")),
        contender("whatif new", |round| vec!["new".to_owned(), made_in(round + 1)]),
        contender(EXEC, |_| words("exec living -- true")),
        contender("whatif rm", |round| vec!["rm".to_owned(), "--yes".to_owned(), made_in(round)]),
    ]
}

fn figures(samples: &[(&str, &Samples)]) -> Vec<Figure> {
    let median = |label: &str| samples.iter().find(|(l, _)| *l == label).map(|(_, samples)| samples.returned.median_ms());
    let ratio = |value: f64, to: &str| Some(Ratio { to: to.to_owned(), value: value / median(to)? });
    let mut figures = Vec::new();
    for (label, samples) in samples {
        let value = samples.returned.median_ms();
        let mut figure = Figure {
            p90: Some(samples.returned.p90_ms()),
            times_floor: median(FLOOR).map(|floor| value / floor),
            ..Figure::new(*label, value, Unit::Milliseconds)
        };
        match *label {
            RUN => (figure.ratio, figure.bar) = (ratio(value, BWRAP), Some(Bar::RatioAtMost(1.2))),
            // Where all namespaces at once are out of reach, the nearest that can be entered.
            EXEC => {
                figure.ratio = ratio(value, NSENTER_ALL).or_else(|| ratio(value, NSENTER));
                figure.bar = Some(Bar::RatioAtMost(1.0));
            }
            _ => {}
        }
        figures.push(figure);
        if *label == RUN {
            // The caller does not wait for it, but the machine does it all the same.
            let settled = samples.settled.median_ms();
            figures.push(Figure {
                p90: Some(samples.settled.p90_ms()),
                times_floor: median(FLOOR).map(|floor| settled / floor),
                ratio: ratio(settled, BWRAP),
                ..Figure::new("whatif run until all is deleted", settled, Unit::Milliseconds)
            });
        }
    }
    figures
}

/// Takes everything away and waits until it is gone.
pub fn remove_all(scratch: &Scratch) -> Result<(), Failure> {
    demand("whatif rm --all", scratch.whatif(&["rm", "--all", "--yes"]))?;
    scratch.settle()
}

fn made_in(round: usize) -> String {
    format!("made-{round}")
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

fn truth() -> PathBuf {
    programs::find("true").unwrap_or_else(|| PathBuf::from("/bin/true"))
}
