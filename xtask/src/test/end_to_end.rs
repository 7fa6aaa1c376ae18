//! The end-to-end tests, several subjects at once, each in a process of its own. One alone leaves the processors idle: its tests
//! wait for disks, clocks and networks most of the time, and in the end all for the last of them.

use std::fs::{self, File};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use crate::backend::with_device_for_all;
use crate::failure::{Failure, on};
use crate::subjects::{self, Subject};
use crate::workspace::Workspace;

/// Each of them has as many threads as there are processors, and two of them leave a third of the processors' time unused.
const SUBJECTS_AT_ONCE: usize = 3;

/// What takes longest is begun first: in the end there is no single one that all wait for.
const LONGEST: [&str; 16] = [
    "apply_crash",
    "network_clients",
    "lifetimes",
    "apply_scenarios",
    "apply_races",
    "transcripts",
    "file_interface",
    "gc",
    "snapshot_races",
    "keeper_stream",
    "reading_errors_changing",
    "snapshot_crash",
    "databases",
    "processes",
    "diff_patch",
    "stale_views",
];

/// Runs all of them, also after a failure: it takes long, and the next run should not be needed to find the next failure.
pub fn run(workspace: &Workspace) -> Result<Duration, Failure> {
    let started = Instant::now();
    let said = workspace.target.join("end-to-end");
    fs::create_dir_all(&said).map_err(on("make", &said))?;
    let subjects = longest_first(subjects::built(workspace)?);
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..SUBJECTS_AT_ONCE {
            scope.spawn(|| {
                while let Some(subject) = subjects.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(Failure::Failed(problem) | Failure::Usage(problem)) = perform(subject, workspace, &said) {
                        println!("{problem}");
                        failed.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(subject);
                    }
                }
            });
        }
    });
    let failed = failed.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    if failed.is_empty() { Ok(started.elapsed()) } else { Err(Failure::new(summary(&failed, workspace, started.elapsed()))) }
}

/// The others stay in their order.
fn longest_first(mut subjects: Vec<Subject>) -> Vec<Subject> {
    subjects.sort_by_key(|subject| LONGEST.iter().position(|name| *name == subject.name).unwrap_or(LONGEST.len()));
    subjects
}

/// Shows what it says when it has ended, so that they do not talk at once.
fn perform(subject: &Subject, workspace: &Workspace, said: &Path) -> Result<(), Failure> {
    let said = said.join(format!("{}.log", subject.name));
    let log = File::create(&said).map_err(on("make", &said))?;
    let errors = log.try_clone().map_err(on("share", &said))?;
    let mut command = subject.command();
    // What people will run is what is tested: the release build, not the one cargo makes beside the tests.
    command.env("WHATIF_BIN", workspace.release_binary()).current_dir(workspace.root.join("e2e"));
    // Attacks are tried over every backend, also by the ordinary user.
    let status = with_device_for_all(command).stdout(log).stderr(errors).status().map_err(on("start", &subject.program))?;
    let text = fs::read(&said).map_err(on("read", &said))?;
    println!("\n     Running {}{}", subject.name, String::from_utf8_lossy(&text).trim_end());
    if status.success() { Ok(()) } else { Err(Failure::new(format!("{} failed: {status}", subject.name))) }
}

fn summary(failed: &[&Subject], workspace: &Workspace, took: Duration) -> String {
    let names: Vec<_> = failed.iter().map(|subject| subject.name.as_str()).collect();
    let again = super::shown(&subjects::again(workspace, &names));
    format!("step '{}' failed ({}) after {:.1} s; again: {again}", super::END_TO_END, names.join(", "), took.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subject(name: &str, program: &str) -> Subject {
        Subject { name: name.to_owned(), program: program.into(), tests: vec![format!("{name}::it_works")] }
    }

    #[test]
    fn what_has_failed_is_shown_as_it_can_be_repeated() {
        let workspace = Workspace { root: "/src".into(), target: "/build".into() };
        let summary = summary(&[&subject("undo", "/e2e"), &subject("gc", "/e2e")], &workspace, Duration::from_secs(3));
        assert!(summary.starts_with("step 'end to end' failed (undo, gc) after 3.0 s"), "{summary}");
        let again = "WHATIF_BIN=/build/release/whatif cargo test --package whatif-e2e -- undo:: gc::";
        assert!(summary.ends_with(again), "{summary}");
    }

    #[test]
    fn the_longest_are_begun_first_and_the_others_in_their_order() {
        let subjects = ["adopt", "gc", "undo", "apply_crash"].map(|name| subject(name, "/e2e"));
        let names: Vec<_> = longest_first(subjects.into()).into_iter().map(|subject| subject.name).collect();
        assert_eq!(names, ["apply_crash", "gc", "adopt", "undo"]);
    }

    #[test]
    fn what_is_begun_first_exists() {
        let workspace = Workspace::find().expect("we are in it");
        let missing: Vec<_> =
            LONGEST.iter().filter(|name| !workspace.root.join(format!("e2e/tests/{name}.rs")).is_file()).collect();
        assert!(missing.is_empty(), "no such subjects: {missing:?}");
    }

    #[test]
    fn a_program_that_fails_is_a_failure() {
        let said = std::env::temp_dir().join(format!("whatif-end-to-end-{}", std::process::id()));
        let workspace = Workspace { root: said.clone(), target: said.clone() };
        fs::create_dir_all(said.join("e2e")).expect("a scratch directory");
        let outcomes = ["/bin/true", "/bin/false"].map(|path| perform(&subject("tests", path), &workspace, &said).is_ok());
        let _ = fs::remove_dir_all(said);
        assert_eq!(outcomes, [true, false]);
    }
}
