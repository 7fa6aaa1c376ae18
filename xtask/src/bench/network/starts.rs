//! What a network of its own adds to a command that does not use it.

use std::path::PathBuf;

use super::super::figure::{Figure, Ratio};
use super::super::measure::{Contender, Samples, Times, attempt, interleaved};
use super::super::peers::remove_all;
use super::super::report::Report;
use super::super::scratch::Scratch;
use super::{figure, more};
use crate::failure::Failure;
use crate::programs;

const FLOOR: &str = "posix_spawn true";
const HOST: &str = "run --net host -- true";
/// Nobody connects, so nothing is asked of anybody.
const OTHERS: [&str; 3] = ["run --net none -- true", "run -- true", "run --net allow=203.0.113.5 -- true"];
const PEER_HOST: &str = "bwrap --share-net … true";
const PEER: &str = "bwrap --unshare-net … true";
const PEER_COMMON: &str = "--ro-bind / / --dev /dev --proc /proc --unshare-user-try --unshare-ipc --unshare-pid --unshare-uts";

/// The project's promise about a network that is not used.
const LIMIT_MS: f64 = 0.5;

pub fn measure(scratch: &Scratch, rounds: usize, report: &mut Report) -> Result<(), Failure> {
    let truth = programs::find("true").unwrap_or_else(|| PathBuf::from("/bin/true"));
    let mut contenders = vec![Contender { label: FLOOR.to_owned(), command: Box::new(move |_| scratch.command(&truth)) }];
    for line in [HOST].into_iter().chain(OTHERS) {
        let command = move |_| scratch.whatif(&line.split(' ').collect::<Vec<_>>());
        contenders.push(Contender { label: line.to_owned(), command: Box::new(command) });
    }
    let mut skipped = Vec::new();
    for (label, own) in [(PEER_HOST, ""), (PEER, " --unshare-net")] {
        match peer(scratch, own) {
            Ok(contender) => contenders.push(Contender { label: label.to_owned(), ..contender }),
            Err(reason) => skipped.push((label.to_owned(), reason)),
        }
    }
    let samples = interleaved(scratch, &contenders, rounds)?;
    let labelled: Vec<_> = contenders.iter().map(|contender| contender.label.as_str()).zip(&samples).collect();
    report.group("a network that is not used", figures(&labelled), skipped);
    remove_all(scratch)
}

fn peer<'a>(scratch: &'a Scratch, own: &str) -> Result<Contender<'a>, String> {
    let program = programs::find("bwrap").ok_or("bwrap is not installed")?;
    let arguments = format!("{PEER_COMMON}{own} true");
    let command = move |_| {
        let mut command = scratch.command(&program);
        command.args(arguments.split(' '));
        command
    };
    attempt(command(0))?;
    Ok(Contender { label: String::new(), command: Box::new(command) })
}

fn figures(samples: &[(&str, &Samples)]) -> Vec<Figure> {
    let times = |label: &str| samples.iter().find(|(l, _)| *l == label).map(|(_, samples)| &samples.returned);
    let ratio = |to: &'static str, times: &Times, other: Option<&Times>| {
        Some(Ratio { to: to.to_owned(), value: times.median_ms() / other?.median_ms() })
    };
    let mut figures = Vec::new();
    for (label, samples) in samples {
        let taken = &samples.returned;
        let to = if *label == HOST { PEER_HOST } else { PEER };
        figures.push(Figure {
            times_floor: times(FLOOR).map(|floor| taken.median_ms() / floor.median_ms()),
            ratio: label.starts_with("run").then(|| ratio(to, taken, times(to))).flatten(),
            ..figure(*label, taken)
        });
        let less = match *label {
            PEER => times(PEER_HOST).map(|host| (host, "--share-net", None)),
            line if OTHERS.contains(&line) => times(HOST).map(|host| (host, "--net host", Some(LIMIT_MS))),
            _ => None,
        };
        if let Some((host, name, limit)) = less {
            figures.push(more(format!("  more than {name}"), taken, host, limit));
        }
    }
    figures
}
