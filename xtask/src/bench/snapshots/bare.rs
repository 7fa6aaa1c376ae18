//! An overlay as the kernel has it, with nothing of ours around it: what work inside a sandbox is compared with.

use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::super::repository::place_of;
use super::super::scratch::Scratch;
use crate::failure::{Failure, on};
use crate::programs;

/// Mounted over the tree itself, so that both sides work at the same path.
const MOUNT: &str = r#"mount -t overlay overlay -o "$1" "$2" && echo mounted && exec cat"#;

/// A mount in a namespace of its own. It lives as long as a process that waits in there.
#[derive(Debug)]
pub struct Bare<'a> {
    scratch: &'a Scratch,
    nsenter: PathBuf,
    waiting: Child,
}

impl<'a> Bare<'a> {
    /// The inner failure is the machine not having what it takes.
    pub fn mount(scratch: &'a Scratch, tree: &Path) -> Result<Result<Self, String>, Failure> {
        let (Some(unshare), Some(nsenter)) = (programs::find("unshare"), programs::find("nsenter")) else {
            return Ok(Err("unshare or nsenter is not installed".to_owned()));
        };
        let mut command = scratch.command(&unshare);
        command.arg("--mount").args((scratch.uid() != 0).then_some("--map-root-user"));
        command.args(["sh", "-c", MOUNT, "sh", &options(scratch, tree)?]).arg(tree);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut waiting = command.spawn().map_err(on("run", &unshare))?;
        let mut told = String::new();
        if let Some(stdout) = waiting.stdout.as_mut() {
            BufReader::new(stdout).read_line(&mut told).map_err(on("read from", &unshare))?;
        }
        let bare = Self { scratch, nsenter, waiting };
        Ok(if told.trim() == "mounted" { Ok(bare) } else { Err(bare.complaint()) })
    }

    pub fn command(&self, command: &[&str]) -> Command {
        let mut entering = self.scratch.command(&self.nsenter);
        entering.args(["--target", &self.waiting.id().to_string(), "--mount"]);
        if self.scratch.uid() != 0 {
            entering.args(["--user", "--preserve-credentials"]);
        }
        entering.args(command);
        entering
    }

    fn complaint(mut self) -> String {
        let mut told = String::new();
        if let Some(mut stderr) = self.waiting.stderr.take() {
            let _ = stderr.read_to_string(&mut told);
        }
        told.trim().to_owned()
    }
}

impl Drop for Bare<'_> {
    fn drop(&mut self) {
        // It ends with its input.
        drop(self.waiting.stdin.take());
        let _ = self.waiting.wait();
    }
}

/// Those that a sandbox's overlay has. Without `volatile` we would look better than we are: a sandbox does not sync.
fn options(scratch: &Scratch, tree: &Path) -> Result<String, Failure> {
    let place = place_of(scratch, "bare");
    let (upper, work) = (place.join("upper"), place.join("work"));
    for directory in [&place, &upper, &work] {
        scratch.make_owned(directory)?;
    }
    let mode = if scratch.uid() == 0 { "redirect_dir=follow" } else { "userxattr" };
    let (tree, upper, work) = (tree.display(), upper.display(), work.display());
    Ok(format!("lowerdir={tree},upperdir={upper},workdir={work},{mode},index=off,metacopy=off,volatile"))
}
