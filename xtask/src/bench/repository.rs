//! Projects to change: git repositories of small text files, as a fresh clone has them.

use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::measure::demand;
use super::scratch::Scratch;
use super::trees::spread;
use crate::failure::{Failure, on};
use crate::programs;

pub const FILES_PER_DIRECTORY: usize = 100;
const LINES: usize = 20;

#[derive(Debug)]
pub struct Git<'a> {
    scratch: &'a Scratch,
    program: PathBuf,
}

impl<'a> Git<'a> {
    /// Nothing where git is not installed.
    pub fn find(scratch: &'a Scratch) -> Option<Self> {
        Some(Self { scratch, program: programs::find("git")? })
    }

    pub fn command(&self, directory: &Path, arguments: &[&str]) -> Command {
        let mut command = self.scratch.command(&self.program);
        command.args(arguments).current_dir(directory);
        command
    }

    /// A repository of so many files, `directory-N/file-N`, each with lines of its own.
    pub fn make(&self, name: &str, files: usize) -> Result<PathBuf, Failure> {
        let repository = place_of(self.scratch, name);
        self.scratch.make_owned(&repository)?;
        demand("git init", self.command(&repository, &["init", "--quiet", "--initial-branch=main"]))?;
        self.import(&repository, files)?;
        demand("git reset", self.command(&repository, &["reset", "--quiet", "--hard"]))?;
        Ok(repository)
    }

    pub fn clone(&self, repository: &Path, name: &str) -> Result<PathBuf, Failure> {
        let copy = place_of(self.scratch, name);
        self.scratch.make_owned(&copy)?;
        let mut command = self.command(&copy, &["clone", "--quiet"]);
        command.arg(repository).arg(".");
        demand("git clone", command)?;
        Ok(copy)
    }

    /// One stream into one pack: `git add` would take minutes for that many objects.
    fn import(&self, repository: &Path, files: usize) -> Result<(), Failure> {
        let what = Path::new("git fast-import");
        // Files that have little to do with each other are no deltas in a real pack either.
        let mut command = self.command(repository, &["fast-import", "--quiet", "--depth=0"]);
        let mut child = command.stdin(Stdio::piped()).spawn().map_err(on("run", what))?;
        let written = child.stdin.take().map_or(Ok(()), |stdin| stream(BufWriter::new(stdin), files));
        let status = child.wait().map_err(on("wait for", what))?;
        written.map_err(on("write to", what))?;
        if status.success() { Ok(()) } else { Err(Failure::new(format!("git fast-import: {status}"))) }
    }
}

fn stream(mut import: impl Write, files: usize) -> std::io::Result<()> {
    write!(import, "commit refs/heads/main\ncommitter bench <bench@localhost> 0 +0000\ndata 4\nmade\n")?;
    for number in 0..files {
        let (directory, file) = (number / FILES_PER_DIRECTORY, number % FILES_PER_DIRECTORY);
        let content: String = (0..LINES).map(|line| format!("line {line} of file {file} in directory {directory}\n")).collect();
        write!(import, "M 100644 inline directory-{directory}/file-{file}\ndata {}\n{content}\n", content.len())?;
    }
    import.flush()
}

/// The process makes the name a new one, and with it the part of the disk.
pub fn place_of(scratch: &Scratch, name: &str) -> PathBuf {
    spread(&scratch.trees());
    scratch.trees().join(format!("{name}-{}", std::process::id()))
}
