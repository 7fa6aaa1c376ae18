//! Work inside: in a fresh sandbox beside a bare overlay, and in one with many snapshots beside the fresh one.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::super::figure::{Figure, Ratio};
use super::super::measure::{Times, attempt, demand};
use super::super::report::Report;
use super::super::repository::Git;
use super::super::scratch::Scratch;
use super::bare::Bare;
use super::workload::{self, DIRECTORIES, Workload};
use super::{Subject, compared, figure};
use crate::failure::Failure;

const FRESH_LIMIT: f64 = 1.05;
const DEEP_LIMIT: f64 = 1.3;
/// Rounds before the first that counts.
const WARM_UP: usize = 1;
const SNAPSHOTS: usize = 30;
/// What is done before each snapshot: a file is edited in each of five directories.
const EDIT: &str =
    r#"for directory; do echo edited >> "directory-$directory/file-0" && date > "directory-$directory/new" || exit; done"#;
const EDITED: usize = 5;

const FRESH: &str = "fresh";
const DEEP: &str = "deep";

pub fn measure(scratch: &Scratch, rounds: usize, report: &mut Report) -> Result<(), Failure> {
    let title = format!("work inside, {rounds} rounds");
    let Some(git) = Git::find(scratch) else {
        report.group(title, Vec::new(), vec![("all of it".to_owned(), "git is not installed".to_owned())]);
        return Ok(());
    };
    let tree = workload::make_tree(scratch, &git, WARM_UP + rounds)?;
    let bare = match Bare::mount(scratch, &tree)? {
        Ok(bare) => bare,
        Err(reason) => {
            report.group(title, Vec::new(), vec![("all of it".to_owned(), format!("no overlay: {reason}"))]);
            return Ok(());
        }
    };
    make_sandboxes(scratch, &tree)?;
    let places =
        [Place::Bare(&bare), Place::Sandbox(Subject { scratch, name: FRESH }), Place::Sandbox(Subject { scratch, name: DEEP })];
    let (mut figures, mut skipped) = (Vec::new(), Vec::new());
    for workloads in workload::PHASES {
        let mut works = Vec::new();
        for workload in workloads {
            match try_out(workload, &places, &tree)? {
                Ok(()) => works.push(Work::new(workload)),
                Err(reason) => skipped.push((workload.label.to_owned(), reason)),
            }
        }
        for round in 1..=WARM_UP + rounds {
            for work in &mut works {
                work.round(&places, &tree, round)?;
            }
        }
        figures.extend(works.iter().flat_map(Work::figures));
    }
    let layers = layers_of(scratch, DEEP)?;
    report.group(format!("{title}; {SNAPSHOTS} snapshots are {layers} layers"), figures, skipped);
    Ok(())
}

/// Round 0. The inner failure is the machine not having what it takes; what the bare overlay can do, the others must.
fn try_out(workload: &Workload, places: &[Place], tree: &Path) -> Result<Result<(), String>, Failure> {
    let Some((bare, sandboxes)) = places.split_first() else { return Ok(Ok(())) };
    if let Err(reason) = attempt(bare.command(workload, tree, 0)) {
        return Ok(Err(reason));
    }
    for sandbox in sandboxes {
        demand(workload.label, sandbox.command(workload, tree, 0))?;
    }
    Ok(Ok(()))
}

fn make_sandboxes(scratch: &Scratch, tree: &Path) -> Result<(), Failure> {
    for name in [FRESH, DEEP] {
        let mut new = scratch.whatif(&["new", name]);
        new.current_dir(tree);
        demand("whatif new", new)?;
    }
    let subject = Subject { scratch, name: DEEP };
    for number in 0..SNAPSHOTS {
        let directories: Vec<String> = (0..EDITED).map(|i| ((number * EDITED + i) % DIRECTORIES).to_string()).collect();
        let edit: Vec<&str> = ["sh", "-c", EDIT, "sh"].into_iter().chain(directories.iter().map(String::as_str)).collect();
        demand("editing in a sandbox", subject.exec(&edit))?;
        demand("whatif snapshot", subject.snapshot(&format!("taken-{number}")))?;
    }
    scratch.settle()?;
    scratch.flush()
}

/// How many layers there are at work: those of many snapshots are merged in the background.
fn layers_of(scratch: &Scratch, name: &str) -> Result<usize, Failure> {
    let shown = scratch.whatif_json(&["show", name])?;
    let mounted = shown["details"]["position"]["mounted"].as_array();
    mounted.map(Vec::len).ok_or_else(|| Failure::new(format!("{name} does not say which layers are mounted")))
}

enum Place<'a> {
    Bare(&'a Bare<'a>),
    Sandbox(Subject<'a>),
}

impl Place<'_> {
    fn command(&self, workload: &Workload, tree: &Path, round: usize) -> Command {
        let words = workload.timed(tree, round);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match self {
            Self::Bare(bare) => bare.command(&words),
            Self::Sandbox(subject) => subject.exec(&words),
        }
    }
}

/// How long the work took by its own account, and how long until the command around it returned. It cannot be tried again to
/// see what went wrong: it may have done half of its work.
fn run(mut command: Command, label: &str) -> Result<(Duration, Duration), Failure> {
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let started = Instant::now();
    let output = command.output().map_err(|error| Failure::new(format!("{label} failed: {error}")))?;
    let outside = started.elapsed();
    let told = String::from_utf8_lossy(&output.stdout).trim().parse().ok().filter(|_| output.status.success());
    told.map(|nanoseconds| (Duration::from_nanos(nanoseconds), outside)).ok_or_else(|| {
        let complaint = String::from_utf8_lossy(&output.stderr);
        Failure::new(format!("{label} failed in {command:?}: {}: {}", output.status, complaint.trim()))
    })
}

/// The times of one workload, in the order of the places.
struct Work<'a> {
    workload: &'a Workload,
    inside: [Times; 3],
    outside: [Times; 3],
}

impl<'a> Work<'a> {
    fn new(workload: &'a Workload) -> Self {
        Self { workload, inside: Default::default(), outside: Default::default() }
    }

    fn round(&mut self, places: &[Place], tree: &Path, round: usize) -> Result<(), Failure> {
        for turn in 0..places.len() {
            let who = (round + turn) % places.len();
            let (inside, outside) = run(places[who].command(self.workload, tree, round), self.workload.label)?;
            if round > WARM_UP {
                self.inside[who].add(inside);
                self.outside[who].add(outside);
            }
        }
        Ok(())
    }

    fn figures(&self) -> Vec<Figure> {
        let [bare, fresh, deep] = &self.inside;
        let around = &self.outside[1];
        let ratio = Some(Ratio { to: "inside".to_owned(), value: around.median_ms() / fresh.median_ms() });
        vec![
            figure(&format!("{}, bare overlay", self.workload.label), bare),
            compared("  fresh sandbox", fresh, ("bare overlay", bare), FRESH_LIMIT),
            Figure { ratio, ..figure("  until exec returned", around) },
            compared("  many snapshots", deep, ("fresh", fresh), DEEP_LIMIT),
        ]
    }
}
