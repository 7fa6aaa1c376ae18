//! Finding what a sandbox changed: a matter of what it wrote, not of how large the project is.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::figure::{Bar, Figure, Ratio, Unit};
use super::measure::{Contender, Samples, demand, expect_lines, interleaved};
use super::report::Report;
use super::repository::{FILES_PER_DIRECTORY, Git};
use super::scratch::Scratch;
use crate::failure::{Failure, on};
use crate::programs;

const FILES: usize = 100_000;
const CHANGED: usize = 2 * FILES / FILES_PER_DIRECTORY;
/// Two files in each directory: one grows, one is replaced by another of the same name.
const CHANGE: &str = r#"
    for directory in directory-*; do echo "one line more" >> "$directory/file-0" || exit; done
    sed -i "s/^line 10 of/line ten of/" directory-*/file-50
"#;
const SANDBOX: &str = "changes";

const FIND: &str = "find HEAD";
const FIND_LSTAT: &str = "find HEAD -printf '%p %s %T@\\n'";
const STATUS: &str = "git status --short";
const NAMES: &str = "whatif diff NAME --name-only";
const GIT_DIFF: &str = "git diff";
const PATCH: &str = "whatif diff NAME --patch";

pub fn measure(scratch: &Scratch, rounds: usize, report: &mut Report) -> Result<(), Failure> {
    let title = format!("{CHANGED} of {FILES} files changed, {rounds} rounds");
    let (Some(git), Some(find)) = (Git::find(scratch), programs::find("find")) else {
        report.group(title, Vec::new(), vec![(NAMES.to_owned(), "git or find is not installed".to_owned())]);
        return Ok(());
    };
    let project = Project::make(scratch, git)?;
    project.check()?;
    scratch.flush()?;
    let contenders = project.contenders(&find);
    let samples = interleaved(scratch, &contenders, rounds)?;
    let labelled: Vec<_> = contenders.iter().map(|contender| contender.label.as_str()).zip(&samples).collect();
    report.group(title, figures(&labelled), Vec::new());
    Ok(())
}

/// The same changes twice: in a sandbox of one repository, and for real in a copy of it.
struct Project<'a> {
    scratch: &'a Scratch,
    git: Git<'a>,
    untouched: PathBuf,
    changed: PathBuf,
    head: PathBuf,
}

impl<'a> Project<'a> {
    fn make(scratch: &'a Scratch, git: Git<'a>) -> Result<Self, Failure> {
        let untouched = git.make("untouched", FILES)?;
        let changed = git.clone(&untouched, "changed")?;
        let mut shell = scratch.command(Path::new("/bin/sh"));
        shell.args(["-c", CHANGE]).current_dir(&changed);
        demand("changing files", shell)?;
        let mut sandbox = scratch.whatif(&["run", "--name", SANDBOX, "--", "sh", "-c", CHANGE]);
        sandbox.current_dir(&untouched);
        demand("changing files in a sandbox", sandbox)?;
        let shown = scratch.whatif_json(&["show", SANDBOX])?;
        let directory = shown["directory"].as_str().ok_or_else(|| Failure::new(format!("{SANDBOX} has no directory")))?;
        let head = Path::new(directory).join("head");
        std::fs::metadata(&head).map_err(on("find", &head))?;
        Ok(Self { scratch, git, untouched, changed, head })
    }

    fn check(&self) -> Result<(), Failure> {
        expect_lines(NAMES, self.names(), "", CHANGED)?;
        expect_lines(PATCH, self.patch(), "diff --git ", CHANGED)?;
        expect_lines(GIT_DIFF, self.git_diff(), "diff --git ", CHANGED)?;
        // After it git's index has the times of all files, and neither of its commands reads them again.
        expect_lines(STATUS, self.git.command(&self.changed, &["status", "--short"]), "", CHANGED)?;
        expect_lines(STATUS, self.status(), "", 0)
    }

    fn contenders<'b>(&'b self, find: &'b Path) -> Vec<Contender<'b>> {
        let contender = |label: &str, command: Box<dyn Fn(usize) -> Command + 'b>| Contender { label: label.to_owned(), command };
        vec![
            contender(FIND, Box::new(|_| self.find(find, &[]))),
            contender(FIND_LSTAT, Box::new(|_| self.find(find, &["-printf", "%p %s %T@\\n"]))),
            contender(STATUS, Box::new(|_| self.status())),
            contender(NAMES, Box::new(|_| self.names())),
            contender(GIT_DIFF, Box::new(|_| self.git_diff())),
            contender(PATCH, Box::new(|_| self.patch())),
        ]
    }

    fn find(&self, find: &Path, arguments: &[&str]) -> Command {
        let mut command = self.scratch.command(find);
        command.arg(&self.head).args(arguments);
        command
    }

    fn status(&self) -> Command {
        self.git.command(&self.untouched, &["status", "--short"])
    }

    fn names(&self) -> Command {
        self.diff("--name-only")
    }

    fn git_diff(&self) -> Command {
        self.git.command(&self.changed, &["diff"])
    }

    fn patch(&self) -> Command {
        self.diff("--patch")
    }

    fn diff(&self, format: &str) -> Command {
        let mut command = self.scratch.whatif(&["diff", SANDBOX, format]);
        command.current_dir(&self.untouched);
        command
    }
}

/// The floor is a walk over what the sandbox wrote that only reads names.
fn figures(samples: &[(&str, &Samples)]) -> Vec<Figure> {
    let median = |label: &str| samples.iter().find(|(l, _)| *l == label).map(|(_, samples)| samples.returned.median_ms());
    let mut figures = Vec::new();
    for (label, samples) in samples {
        let value = samples.returned.median_ms();
        let figure = |label: &str, compared: Option<(&str, f64)>| Figure {
            p90: Some(samples.returned.p90_ms()),
            times_floor: median(FIND).map(|floor| value / floor),
            ratio: compared.and_then(|(to, _)| Some(Ratio { to: to.to_owned(), value: value / median(to)? })),
            bar: compared.map(|(_, limit)| Bar::RatioAtMost(limit)),
            ..Figure::new(label, value, Unit::Milliseconds)
        };
        match *label {
            NAMES => {
                figures.push(figure(NAMES, Some((FIND_LSTAT, 2.0))));
                figures.push(figure("  the same", Some((STATUS, 0.2))));
            }
            PATCH => figures.push(figure(PATCH, Some((GIT_DIFF, 1.0)))),
            peer => figures.push(figure(peer, None)),
        }
    }
    figures
}
