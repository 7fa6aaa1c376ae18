//! A place of its own for one measurement: home, state directory, projects and a copy of the binary.
//!
//! ```text
//! /var/tmp/whatif-bench-<pid>/   bin/whatif  home/  state/  trees/
//! ```
//!
//! It goes away with everything that lives in it when it is dropped; what an interrupted measurement left goes away when
//! the next one begins.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::process;
use crate::failure::{Failure, on};

/// Not `/tmp`: that is often a tmpfs, which flatters, and sandboxes have their own.
const PLACE: &str = "/var/tmp";
const PREFIX: &str = "whatif-bench-";
/// The ordinary user that root measures as.
const NOBODY: u32 = 65534;
/// Longer than any deletion in the background takes while something is measured.
const PATIENCE: Duration = Duration::from_secs(60);
/// The same at the end, when a million files may have to go.
const LAST_PATIENCE: Duration = Duration::from_secs(1800);

#[derive(Debug)]
pub struct Scratch {
    directory: PathBuf,
    binary: PathBuf,
    /// Whom commands run as, when that is not us.
    user: Option<u32>,
}

impl Scratch {
    pub fn make(binary: &Path, as_user: bool) -> Result<Self, Failure> {
        sweep(binary);
        let directory = Path::new(PLACE).join(format!("{PREFIX}{}", std::process::id()));
        make_directory(&directory)?;
        let user = (as_user && rustix::process::geteuid().is_root()).then_some(NOBODY);
        // From here on a failure also cleans up.
        let scratch = Self { binary: directory.join("bin/whatif"), directory, user };
        make_directory(&scratch.directory.join("bin"))?;
        // A copy, because the original may be out of the user's reach, and because nobody else runs this one: its pages are
        // shared by our keepers only, so that their memory is counted in full.
        fs::copy(binary, &scratch.binary).map_err(on("copy", binary))?;
        fs::File::open(&scratch.binary).and_then(|copy| copy.sync_all()).map_err(on("flush", &scratch.binary))?;
        for part in ["home", "state", "trees"] {
            scratch.make_owned(&scratch.directory.join(part))?;
        }
        Ok(scratch)
    }

    pub fn uid(&self) -> u32 {
        self.user.unwrap_or_else(|| rustix::process::geteuid().as_raw())
    }

    pub fn home(&self) -> PathBuf {
        self.directory.join("home")
    }

    pub fn trees(&self) -> PathBuf {
        self.directory.join("trees")
    }

    /// A directory that belongs to whom commands run as.
    pub fn make_owned(&self, path: &Path) -> Result<(), Failure> {
        make_directory(path)?;
        self.own(path)
    }

    pub fn own(&self, path: &Path) -> Result<(), Failure> {
        match self.user {
            Some(user) => chown(path, Some(user), Some(user)).map_err(on("chown", path)),
            None => Ok(()),
        }
    }

    /// A command with nothing of the caller's environment: cargo's library path alone would slow every contender down.
    ///
    /// `program` is a path; with a name to look up, the standard library forks where it would use `posix_spawn`.
    /// (To become another user it forks, too, for every contender alike. That is cheaper than a `setpriv` before each.)
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin").env("LANG", "C.UTF-8");
        command.env("HOME", self.home()).env("WHATIF_HOME", self.directory.join("state")).current_dir(self.home());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        if let Some(user) = self.user {
            // As root this also clears the supplementary groups.
            command.uid(user).gid(user);
        }
        command
    }

    pub fn whatif(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(&self.binary);
        command.args(arguments);
        command
    }

    pub fn whatif_json(&self, arguments: &[&str]) -> Result<Value, Failure> {
        let mut command = self.whatif(arguments);
        command.arg("--json").stdout(Stdio::piped()).stderr(Stdio::piped());
        let output = command.output().map_err(on("run", &self.binary))?;
        if !output.status.success() {
            let told = String::from_utf8_lossy(&output.stderr);
            return Err(Failure::new(format!("whatif {} --json: {}: {}", arguments.join(" "), output.status, told.trim())));
        }
        serde_json::from_slice(&output.stdout).map_err(on("understand", Path::new(&format!("whatif {}", arguments.join(" ")))))
    }

    /// Waits until everything is on the disk, so that it is not written in a contender's time.
    pub fn flush(&self) -> Result<(), Failure> {
        let place = fs::File::open(&self.directory).map_err(on("open", &self.directory))?;
        rustix::fs::syncfs(&place).map_err(on("flush", &self.directory))
    }

    /// Waits until nothing is being taken down in the background any more, so that one contender's deletions do not run
    /// in the next one's time.
    pub fn settle(&self) -> Result<(), Failure> {
        self.settle_within(PATIENCE)
    }

    fn settle_within(&self, patience: Duration) -> Result<(), Failure> {
        let transient = self.directory.join("state/transient");
        let deadline = Instant::now() + patience;
        while fs::read_dir(&transient).is_ok_and(|mut entries| entries.next().is_some()) {
            if Instant::now() > deadline {
                return Err(Failure::new(format!("{} is still not empty after {patience:?}", transient.display())));
            }
            std::thread::sleep(Duration::from_micros(200));
        }
        Ok(())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        super::say(&format!("removing {}", self.directory.display()));
        if let Err(Failure::Failed(problem) | Failure::Usage(problem)) = self.tear_down() {
            eprintln!("bench: {problem}");
        }
    }
}

impl Scratch {
    fn tear_down(&self) -> Result<(), Failure> {
        if self.binary.exists() {
            let status = self.whatif(&["rm", "--all", "--yes"]).status().map_err(on("run", &self.binary))?;
            if !status.success() {
                return Err(Failure::new(format!("whatif rm --all: {status}; {} is left as it is", self.directory.display())));
            }
            self.settle_within(LAST_PATIENCE)?;
        }
        // Deleting through a mount would delete what is mounted.
        let mounts = fs::read_to_string("/proc/self/mountinfo").map_err(on("read", Path::new("/proc/self/mountinfo")))?;
        let inside = format!("{}/", self.directory.display());
        if mounts.lines().any(|line| line.split(' ').nth(4).is_some_and(|point| point.starts_with(&inside))) {
            return Err(Failure::new(format!("something is mounted beneath {}; it is left as it is", self.directory.display())));
        }
        // A process that deletes layers in the background may put something where we have been already.
        let removed = fs::remove_dir_all(&self.directory).or_else(|_| fs::remove_dir_all(&self.directory));
        removed.map_err(on("remove", &self.directory))
    }
}

/// Takes down what interrupted measurements left.
fn sweep(binary: &Path) {
    let Ok(entries) = fs::read_dir(PLACE) else { return };
    for directory in entries.flatten().map(|entry| entry.path()).filter(|path| is_abandoned(path)) {
        let owner = fs::metadata(directory.join("state")).map_or(0, |state| state.uid());
        let user = (owner == NOBODY).then_some(NOBODY);
        // Under another name: its own copy may be half written, and cannot be replaced while a keeper runs it.
        let leftover = Scratch { binary: directory.join("bin/whatif-sweeping"), directory, user };
        if let Err(error) = fs::copy(binary, &leftover.binary) {
            eprintln!("bench: failed to restore {}: {error}", leftover.binary.display());
        }
        drop(leftover);
    }
}

/// Ours, of a process that is gone. Anybody can make a directory of that name, so only the owner makes it ours.
fn is_abandoned(path: &Path) -> bool {
    let pid = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix(PREFIX));
    let Some(pid) = pid.and_then(|pid| pid.parse().ok()) else { return false };
    let is_ours = fs::symlink_metadata(path).is_ok_and(|m| m.is_dir() && m.uid() == rustix::process::geteuid().as_raw());
    is_ours && !process::is_alive(pid)
}

fn make_directory(path: &Path) -> Result<(), Failure> {
    fs::create_dir(path).map_err(on("create", path))?;
    // Whatever the umask says: the user we measure as must get through.
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).map_err(on("open up", path))
}
