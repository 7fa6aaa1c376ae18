//! Making changes real, beside copying the same files without any care.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::figure::{Bar, Figure, Ratio, Unit};
use super::measure::{Times, demand, expect_lines, timed};
use super::report::Report;
use super::repository::{Git, place_of};
use super::scratch::Scratch;
use crate::failure::{Failure, on};

/// All of them are modified, and as many are added.
const FILES: usize = 5_000;
const CHANGE: &str = r#"
    for directory in directory-*; do cp -r "$directory" "added-$directory" || exit; done
    for file in directory-*/* added-*/*; do echo "one line more" >> "$file" || exit; done
"#;
/// Rounds before the first that counts.
const WARM_UP: usize = 1;

const COPY: &str = "cp -a SRC DST && sync";
const APPLY: &str = "whatif apply NAME --all --yes";
const UNDO: &str = "whatif undo --yes";

/// Every round has a project, a sandbox and a copy of its own, and nothing is deleted before the end: where many files
/// were deleted a moment ago, new ones may be slow to make, and that would be a matter of who came first.
pub fn measure(scratch: &Scratch, rounds: usize, report: &mut Report) -> Result<(), Failure> {
    let title = format!("{} files made real, {rounds} rounds", 2 * FILES);
    let Some(git) = Git::find(scratch) else {
        report.group(title, Vec::new(), vec![(APPLY.to_owned(), "git is not installed".to_owned())]);
        return Ok(());
    };
    let original = git.make("original", FILES)?;
    let source = source(scratch, &git, &original)?;
    let (mut copied, mut applied, mut undone) = (Times::default(), Times::default(), Times::default());
    let mut projects = Vec::new();
    for round in 0..WARM_UP + rounds {
        let (project, copy) = (project(scratch, &git, &original, round)?, place_of(scratch, &format!("copy-{round}")));
        let mut turns =
            [(COPY, copy_command(scratch, &source, &copy), &mut copied), (APPLY, apply(scratch, &project, round), &mut applied)];
        turns.rotate_left(round % 2);
        for (label, command, times) in turns {
            add(times, round, quietly(scratch, label, command)?);
        }
        projects.push(project);
    }
    for (round, project) in projects.iter().enumerate() {
        expect_lines("git status after apply", status(&git, project), "", 2 * FILES)?;
        add(&mut undone, round, quietly(scratch, UNDO, undo(scratch, project))?);
        expect_lines("git status after undo", status(&git, project), "", 0)?;
    }
    report.group(title, figures(&copied, &applied, &undone), Vec::new());
    Ok(())
}

/// The files as they will be.
fn source(scratch: &Scratch, git: &Git, original: &Path) -> Result<PathBuf, Failure> {
    let source = git.clone(original, "source")?;
    let mut shell = scratch.command(Path::new("/bin/sh"));
    shell.args(["-c", CHANGE]).current_dir(&source);
    demand("changing files", shell)?;
    let records = source.join(".git");
    std::fs::remove_dir_all(&records).map_err(on("remove", &records))?;
    Ok(source)
}

/// A project as it was, and a sandbox of it in which everything is changed.
fn project(scratch: &Scratch, git: &Git, original: &Path, round: usize) -> Result<PathBuf, Failure> {
    let project = git.clone(original, &format!("project-{round}"))?;
    let mut sandbox = scratch.whatif(&["run", "--name", &name(round), "--", "sh", "-c", CHANGE]);
    sandbox.current_dir(&project);
    demand("changing files in a sandbox", sandbox)?;
    Ok(project)
}

/// The time of a command that finds nothing waiting to be written.
fn quietly(scratch: &Scratch, label: &str, command: Command) -> Result<std::time::Duration, Failure> {
    scratch.flush()?;
    Ok(timed(scratch, label, command)?.0)
}

fn add(times: &mut Times, round: usize, time: std::time::Duration) {
    if round >= WARM_UP {
        times.add(time);
    }
}

fn copy_command(scratch: &Scratch, source: &Path, copy: &Path) -> Command {
    let mut shell = scratch.command(Path::new("/bin/sh"));
    shell.args(["-c", r#"cp -a "$1" "$2" && sync"#, "sh"]).arg(source).arg(copy);
    shell
}

fn apply(scratch: &Scratch, project: &Path, round: usize) -> Command {
    let mut command = scratch.whatif(&["apply", &name(round), "--all", "--yes"]);
    command.current_dir(project);
    command
}

fn undo(scratch: &Scratch, project: &Path) -> Command {
    let mut command = scratch.whatif(&["undo", "--yes"]);
    command.current_dir(project);
    command
}

fn status(git: &Git, project: &Path) -> Command {
    git.command(project, &["status", "--short", "--untracked-files=all"])
}

fn figures(copied: &Times, applied: &Times, undone: &Times) -> Vec<Figure> {
    let figure = |label: &str, times: &Times| Figure {
        p90: Some(times.p90_ms()),
        ..Figure::new(label, times.median_ms(), Unit::Milliseconds)
    };
    let compared = |figure: Figure| {
        let ratio = Some(Ratio { to: COPY.to_owned(), value: figure.value / copied.median_ms() });
        Figure { ratio, ..figure }
    };
    vec![
        figure(COPY, copied),
        Figure { bar: Some(Bar::RatioAtMost(3.0)), ..compared(figure(APPLY, applied)) },
        compared(figure(UNDO, undone)),
    ]
}

fn name(round: usize) -> String {
    format!("apply-{round}")
}
