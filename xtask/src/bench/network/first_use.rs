//! A command that makes one connection, from its start to its end: what is only started when it is needed is started here.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::super::measure::Times;
use super::super::peers::remove_all;
use super::super::scratch::Scratch;
use super::outside::{ADDRESS, Outside};
use super::passed::Group;
use super::place::{self, DIRECT, PASTA};
use super::{beside, figure};
use crate::failure::Failure;

const WARM_UP: usize = 2;
const UNCACHED: &str = "run, registries found anew";

struct Contender<'a> {
    label: &'static str,
    command: Box<dyn Fn() -> Command + 'a>,
    /// Taken away before each round.
    forgotten: Option<PathBuf>,
    whole: Times,
    first_byte: Times,
}

pub fn measure(scratch: &Scratch, outside: &Outside, program: &Path, rounds: usize) -> Result<Group, Failure> {
    let mut contenders = contenders(scratch, program);
    let mut skipped = Vec::new();
    match place::pasta_command(scratch) {
        Ok(_) => contenders.push(contender(PASTA, move || {
            // It was there a moment ago.
            let mut command = place::pasta_command(scratch).unwrap_or_else(|_| scratch.command(Path::new(PASTA)));
            command.arg(program).arg("net-client");
            command
        })),
        Err(reason) => skipped.push((PASTA.to_owned(), reason)),
    }
    let mut failed: Option<String> = None;
    for round in 0..WARM_UP + rounds {
        let count = contenders.len();
        for turn in 0..count {
            let contender = &mut contenders[(round + turn) % count];
            let taken = match once(contender, outside) {
                Err(reason) if contender.label == PASTA => {
                    failed = Some(reason);
                    continue;
                }
                other => other.map_err(|reason| Failure::new(format!("{}: {reason}", contender.label)))?,
            };
            scratch.settle()?;
            if round >= WARM_UP {
                contender.whole.add(taken.0);
                contender.first_byte.add(taken.1);
            }
        }
        if let Some(reason) = failed.take() {
            contenders.retain(|contender| contender.label != PASTA);
            skipped.push((PASTA.to_owned(), reason));
        }
    }
    remove_all(scratch)?;
    let direct = &contenders[0];
    let mut figures = vec![figure(direct.label, &direct.whole), figure("  its connection", &direct.first_byte)];
    for contender in &contenders[1..] {
        figures.push(beside(contender.label, &contender.whole, DIRECT, &direct.whole));
        figures.push(beside("  its connection", &contender.first_byte, DIRECT, &direct.first_byte));
    }
    Ok(Group { title: format!("a command with one connection, {rounds} rounds"), figures, skipped })
}

fn contenders<'a>(scratch: &'a Scratch, program: &'a Path) -> Vec<Contender<'a>> {
    let allow = format!("allow={ADDRESS}");
    let run = |arguments: Vec<String>| {
        move || {
            let mut command = scratch.whatif(&["run"]);
            command.args(&arguments).arg("--").arg(program).arg("net-client");
            command
        }
    };
    let net = |modes: &[&str]| modes.iter().flat_map(|mode| ["--net".to_owned(), (*mode).to_owned()]).collect();
    // What the user's tools are set up to use is kept here once it was asked for.
    let cache = scratch.home().join("../state/cache/registries.json");
    vec![
        contender(DIRECT, move || place::client(scratch, program)),
        contender("run --net host", run(net(&["host"]))),
        contender("run --net allow=ADDRESS", run(net(&[&allow]))),
        contender("run --net registries,allow=ADDRESS", run(net(&["registries", &allow]))),
        Contender { forgotten: Some(cache), ..contender(UNCACHED, run(net(&["registries", &allow]))) },
    ]
}

fn contender<'a>(label: &'static str, command: impl Fn() -> Command + 'a) -> Contender<'a> {
    Contender { label, command: Box::new(command), forgotten: None, whole: Times::default(), first_byte: Times::default() }
}

/// How long all of it took, and its connection alone.
fn once(contender: &Contender, outside: &Outside) -> Result<(Duration, Duration), String> {
    if let Some(path) = &contender.forgotten {
        // It is not there in the first round.
        let _ = fs::remove_file(path);
    }
    let mut command = (contender.command)();
    command.args(["connect", &outside.echo()]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let started = Instant::now();
    let output = command.output().map_err(|error| error.to_string())?;
    let whole = started.elapsed();
    let said = String::from_utf8_lossy(&output.stdout);
    match said.trim().parse() {
        Ok(nanoseconds) if output.status.success() => Ok((whole, Duration::from_nanos(nanoseconds))),
        _ => Err(format!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr).trim())),
    }
}
