//! The same life over every backend: what is shown and what becomes real must not depend on how copy-on-write is done.
//!
//! A life is a row of rounds. In each, a new sandbox is made and edited, then reality is; after that come the verbs. What must
//! differ is left out, and only that:
//!
//! - An overlay shows what reality does to a file that the sandbox did not touch, and a copy does not, so nothing is edited inside
//!   after reality has moved.
//! - Root's overlays rename a directory without copying it, and what reality does to it afterwards shows through at its new
//!   place. Copies have moved it for good, so no directory is renamed inside.
//! - Without an inventory it cannot be told whether a directory was replaced by one that looks the same, so overlays say that
//!   it changed. The files in it are compared everywhere.

use std::path::PathBuf;

use serde_json::Value;

use super::edits::{self, Tokens};
use super::life::Backend;
use super::survey::{PROGRAM, Survey};
use crate::{Random, World};

const CHOICES: [&str; 6] = ["--all", "--all", "--files=d0/**", "--skip=d1/**", "--ours=**", "--theirs=**"];

/// What a diff says about a change that must be the same.
const FIELDS: [&str; 10] =
    ["path", "old_path", "kind", "type", "added_lines", "deleted_lines", "old_mode", "new_mode", "old_owner", "new_owner"];

/// One thing that happens over each backend.
#[derive(Clone, Debug)]
enum Step {
    Make,
    Person(String),
    Inside(String),
    Snapshot,
    RollBack,
    Diff,
    Status,
    Rebase,
    Apply(&'static str),
    Undo,
    Remove,
}

/// What a step led to, without what must differ (ids, times, paths of the project).
#[derive(Clone, Debug, PartialEq, Eq)]
struct Result {
    code: i32,
    said: Vec<String>,
    seen: Option<Survey>,
}

/// Plays the life of a seed over these backends and fails at the first step that does not lead to the same.
pub fn alike(w: &World, backends: &[Backend], seed: u64, rounds: usize) {
    let mut random = Random::from(seed);
    let mut tokens = Tokens::default();
    let tree = edits::tree(&mut random, &mut tokens);
    let places: Vec<Place<'_>> = backends.iter().map(|backend| Place::make(w, *backend, seed, &tree)).collect();
    let mut log = vec![format!("seed {seed}, {:?}", w.who)];
    for _ in 0..rounds {
        for step in round(&mut random, &mut tokens) {
            log.push(format!("{step:?}"));
            let results: Vec<Result> = places.iter().map(|place| place.go(&step)).collect();
            for (place, result) in places.iter().zip(&results).skip(1) {
                let differences = differences(&results[0], result);
                let (one, other) = (places[0].backend.word(), place.backend.word());
                assert!(differences.is_empty(), "{one} and {other} differ:\n{}\nafter\n{}", differences.join("\n"), log.join("\n"));
            }
        }
    }
}

fn round(random: &mut Random, tokens: &mut Tokens) -> Vec<Step> {
    let mut inside = |random: &mut Random| Step::Inside(without_renamed_directories(&edits::work(random, tokens, 5)));
    let mut steps = vec![Step::Make, inside(random)];
    if random.once_in(2) {
        steps.extend([Step::Snapshot, inside(random)]);
        if random.once_in(2) {
            steps.extend([Step::RollBack, inside(random)]);
        }
    }
    steps.extend([Step::Diff, Step::Person(edits::work(random, tokens, 4)), Step::Diff, Step::Status]);
    if random.once_in(3) {
        steps.extend([Step::Rebase, Step::Diff]);
    }
    let choice = *random.pick(&CHOICES);
    steps.extend([Step::Apply(choice), Step::Diff, Step::Apply("--all")]);
    if random.once_in(2) {
        steps.extend([Step::Undo, Step::Diff, Step::Apply("--all")]);
    }
    steps.push(Step::Remove);
    steps
}

fn without_renamed_directories(work: &str) -> String {
    let renames = |line: &&str| line.starts_with("{ [ -d ") && line.contains(" && mv ");
    work.lines().filter(|line| !renames(line)).flat_map(|line| [line, "\n"]).collect()
}

/// A reality and its sandbox over one backend.
struct Place<'a> {
    w: &'a World,
    backend: Backend,
    project: PathBuf,
}

impl<'a> Place<'a> {
    fn make(w: &'a World, backend: Backend, seed: u64, tree: &str) -> Self {
        let project = w.home.join(format!("alike-{}-{seed}", backend.word()));
        w.mkdir(&project);
        let place = Self { w, backend, project };
        place.outside(tree);
        place
    }

    fn go(&self, step: &Step) -> Result {
        let name = self.backend.word();
        match step {
            Step::Make => self.call(&["new", name, "--backend", name], |_| Vec::new()),
            Step::Person(work) => {
                self.outside(work);
                Result { code: 0, said: Vec::new(), seen: Some(self.reality()) }
            }
            Step::Inside(work) => {
                let script = format!("{work}\n/usr/bin/python3 -ISc \"$0\"");
                let exec = ["exec", name, "--", "/bin/sh", "-c", &script, PROGRAM];
                let outcome = self.w.whatif(exec).cwd(&self.project).go();
                Result { code: outcome.code, said: Vec::new(), seen: Some(Survey::parse(outcome.ok().text())) }
            }
            Step::Snapshot => self.call(&["--json", "snapshot", name, "one"], |_| Vec::new()),
            Step::RollBack => self.call(&["--json", "rollback", name, "one"], |_| Vec::new()),
            Step::Diff => self.call(&["--json", "diff", name], |d| {
                [words(&d["changes"], &FIELDS), words(&self.drift_of_files(d), &["path", "kind"])].concat()
            }),
            Step::Status => {
                self.call(&["--json", "status", name], |d| words(&self.drift_of_files(d), &["path", "kind", "collides"]))
            }
            Step::Rebase => self.call(&["--json", "rebase", name], |d| {
                [words(&d["merged"], &[]), words(&d["conflicts"], &[]), words(&d["open"], &["path", "why"])].concat()
            }),
            Step::Apply(choice) => self.call(&["--json", "apply", name, "--yes", "--all", choice], |d| {
                [words(&d["applied"], &["path", "what"]), words(&d["left_out"], &["path", "reason"])].concat()
            }),
            Step::Undo => self.call(&["--json", "undo", "--yes"], |_| Vec::new()),
            Step::Remove => self.call(&["rm", name], |_| Vec::new()),
        }
    }

    /// A command, what of its document must be the same, and reality afterwards.
    fn call(&self, arguments: &[&str], said: impl Fn(&Value) -> Vec<String>) -> Result {
        let mut arguments = arguments.to_vec();
        if arguments.iter().any(|a| a.starts_with("--files")) {
            arguments.retain(|a| *a != "--all");
        }
        arguments.dedup();
        let outcome = self.w.whatif(arguments).cwd(&self.project).go();
        let document: Value = serde_json::from_str(outcome.text()).unwrap_or(Value::Null);
        Result { code: outcome.code, said: said(&document), seen: Some(self.reality()) }
    }

    fn drift_of_files(&self, document: &Value) -> Value {
        let is_directory = |one: &&Value| one["path"].as_str().is_some_and(|path| self.project.join(path).is_dir());
        let drift = document["drift"].as_array().cloned().unwrap_or_default();
        drift.iter().filter(|one| !is_directory(one)).cloned().collect()
    }

    fn outside(&self, script: &str) {
        self.w.program("/bin/sh").args(["-c", script]).cwd(&self.project).go();
    }

    fn reality(&self) -> Survey {
        Survey::parse(self.w.program("/usr/bin/python3").args(["-ISc", PROGRAM]).cwd(&self.project).go().ok().text())
    }
}

/// A list as lines of words.
fn words(list: &Value, fields: &[&str]) -> Vec<String> {
    let line = |one: &Value| match one {
        Value::Object(_) => fields.iter().map(|field| format!("{field} {}", one[*field])).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    };
    list.as_array().map(|list| list.iter().map(line).collect()).unwrap_or_default()
}

fn differences(one: &Result, other: &Result) -> Vec<String> {
    let mut differences = Vec::new();
    if one.code != other.code {
        differences.push(format!("exit codes {} and {}", one.code, other.code));
    }
    let only = |a: &Result, b: &Result| a.said.iter().filter(|line| !b.said.contains(line)).cloned().collect::<Vec<_>>();
    differences.extend(only(one, other).into_iter().map(|line| format!("only the first says: {line}")));
    differences.extend(only(other, one).into_iter().map(|line| format!("only the second says: {line}")));
    if let (Some(one), Some(other)) = (&one.seen, &other.seen) {
        differences.extend(one.differences(other));
    }
    differences
}
