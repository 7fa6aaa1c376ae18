//! `cargo xtask suites`: other projects' own tests, run on this machine and in a sandbox on it. What passes outside passes inside, but for
//! what `suites/differences` lists with a reason.

mod cargo;
mod chromium;
mod compare;
mod debian;
mod differences;
mod git;
mod npm;
mod postgres;
mod python;
mod redis;
mod runner;
mod tap;

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use self::compare::{Compared, Outcomes, compare};
use self::differences::Differences;
use self::runner::{Part, Runner};
use crate::failure::{Failure, on};
use crate::workspace::Workspace;

#[derive(Debug)]
pub struct Options {
    as_user: bool,
    /// Every part of a suite, not only its usual ones.
    all: bool,
    /// How many parts run at once.
    jobs: usize,
    /// A part that takes longer is left out.
    at_most: Option<Duration>,
    suite: Option<String>,
    /// Parts of a suite; its usual ones when nothing is named.
    parts: Vec<String>,
}

impl Options {
    pub fn parse(arguments: &[String]) -> Result<Self, Failure> {
        let mut options = Self { as_user: false, all: false, jobs: 1, at_most: None, suite: None, parts: Vec::new() };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            let mut number = || {
                let value = arguments.next().and_then(|value| value.parse().ok()).filter(|value| *value > 0);
                value.ok_or_else(|| Failure::Usage(format!("{argument} needs a number above 0")))
            };
            match argument.as_str() {
                "--user" => options.as_user = true,
                "--all" => options.all = true,
                "--jobs" => options.jobs = usize::try_from(number()?).unwrap_or(1),
                "--at-most" => options.at_most = Some(Duration::from_secs(number()?)),
                option if option.starts_with('-') => return Err(Failure::Usage(format!("'{option}' is not an option of suites"))),
                suite if options.suite.is_none() => options.suite = Some(suite.to_owned()),
                part => options.parts.push(part.to_owned()),
            }
        }
        Ok(options)
    }
}

/// A test suite of another project.
struct Suite {
    name: &'static str,
    /// Installs it, below this directory if it is not a package. Done outside, before anything is run.
    prepare: fn(&Path) -> Result<(), Failure>,
    usual: fn(&Path) -> Result<Vec<String>, Failure>,
    all: fn(&Path) -> Result<Vec<String>, Failure>,
    /// A shell command that runs one part in an empty directory, and prints what `read` understands.
    command: fn(&Path, &str) -> Result<String, Failure>,
    /// The outcome of each test of the part, from what the command printed.
    read: fn(&str) -> Outcomes,
    network: Network,
    /// Where it has programs of its own, in the directory where it is installed.
    programs: Option<&'static str>,
    /// More options of `whatif run`.
    options: &'static [&'static str],
}

/// What the tests of a suite reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Network {
    Loopback,
    Registries,
}

const SUITES: [Suite; 7] = [python::SUITE, git::SUITE, postgres::SUITE, redis::SUITE, chromium::SUITE, npm::SUITE, cargo::SUITE];

pub fn run(options: &Options) -> Result<(), Failure> {
    let workspace = Workspace::find()?;
    let binary = std::env::var_os("WHATIF_BIN").map_or_else(|| workspace.release_binary(), PathBuf::from);
    let runner = Runner::make(binary, options.as_user, options.at_most)?;
    let known = Differences::read(&workspace.root.join("xtask/src/suites/differences"))?;
    let chosen: Vec<_> = SUITES.iter().filter(|suite| options.suite.as_ref().is_none_or(|name| name == suite.name)).collect();
    if chosen.is_empty() {
        return Err(Failure::Usage(format!("suites are: {}", SUITES.map(|suite| suite.name).join(", "))));
    }
    let mut total = Compared::default();
    for suite in chosen {
        let directory = workspace.target.join("suites").join(suite.name);
        fs::create_dir_all(&directory).map_err(on("make", &directory))?;
        (suite.prepare)(&directory)?;
        let parts = match () {
            () if !options.parts.is_empty() => options.parts.clone(),
            () if options.all => (suite.all)(&directory)?,
            () => (suite.usual)(&directory)?,
        };
        let result = play(suite, &directory, parts, options.jobs, &runner, &known)?;
        println!("{}", result.line(suite.name, "together"));
        total.add(result);
    }
    for test in &total.once {
        println!("came out differently once, and alike when it was run again: {test}");
    }
    if total.worse.is_empty() {
        println!("nothing fails inside that passes outside, but for what is listed");
        return Ok(());
    }
    Err(Failure::new(format!("{} tests fail only inside:\n{}", total.worse.len(), total.worse.join("\n"))))
}

/// Every part outside and inside, some at once.
fn play(
    suite: &Suite,
    directory: &Path,
    parts: Vec<String>,
    jobs: usize,
    runner: &Runner,
    known: &Differences,
) -> Result<Compared, Failure> {
    let waiting = Mutex::new(VecDeque::from(parts));
    let next = || waiting.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let work = || {
        let mut sum = Compared::default();
        while let Some(part) = next() {
            sum.add(play_part(suite, directory, &part, runner, known)?);
        }
        Ok(sum)
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs).map(|_| scope.spawn(work)).collect();
        let mut sum = Compared::default();
        for thread in threads {
            sum.add(thread.join().map_err(|_panic| Failure::new("a thread that ran tests panicked"))??);
        }
        Ok(sum)
    })
}

fn play_part(suite: &Suite, directory: &Path, part: &str, runner: &Runner, known: &Differences) -> Result<Compared, Failure> {
    let command = (suite.command)(directory, part)?;
    let run = Part { suite, directory, command: &command };
    let once = || -> Result<Option<Compared>, Failure> {
        let Some(outside) = runner.outside(run)? else { return Ok(None) };
        let inside = runner.inside(run)?.unwrap_or_default();
        Ok(Some(compare(suite.name, part, &(suite.read)(&outside), &(suite.read)(&inside), known)))
    };
    let Some(mut result) = once()? else {
        println!("{:<8} {part:<36} left out: it takes too long outside", suite.name);
        return Ok(Compared::default());
    };
    // Tests that depend on how busy the machine is fail here and there. A difference shows twice.
    if !result.worse.is_empty() {
        let again = once()?.unwrap_or_default();
        result.confirm(&again);
    }
    println!("{}", result.line(suite.name, part));
    for test in &result.worse {
        println!("    fails only inside: {test}");
    }
    Ok(result)
}
