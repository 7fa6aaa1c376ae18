//! `cargo xtask fuzz`: lives of the model-based fuzzer, one after the other, over several file systems, until time is up or one
//! of them finds something.
//!
//! Root gets the file systems that this machine can make, each in an image of its own. They are mounted in a mount namespace of
//! this process, so nothing stays mounted however it ends.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::failure::{Failure, on};
use crate::programs;
use crate::workspace::Workspace;

/// Set for the process that has a mount namespace of its own.
const INSIDE: &str = "WHATIF_FUZZ_INSIDE";
const IMAGE_SIZE: u64 = 2 << 30;

#[derive(Debug, PartialEq, Eq)]
pub struct Options {
    minutes: u64,
    steps: u64,
    seed: Option<u64>,
    /// All that can be made, if none is named.
    filesystems: Vec<Filesystem>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Filesystem {
    /// Where `/var/tmp` lies.
    Here,
    Ext4,
    Xfs,
    Btrfs,
    Tmpfs,
}

const ALL: [Filesystem; 5] = [Filesystem::Here, Filesystem::Ext4, Filesystem::Xfs, Filesystem::Btrfs, Filesystem::Tmpfs];

impl Filesystem {
    fn name(self) -> &'static str {
        match self {
            Self::Here => "here",
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
            Self::Tmpfs => "tmpfs",
        }
    }

    fn can_be_made(self) -> bool {
        match self {
            Self::Here => true,
            Self::Tmpfs => rustix::process::geteuid().is_root(),
            disk => rustix::process::geteuid().is_root() && programs::find(&format!("mkfs.{}", disk.name())).is_some(),
        }
    }
}

impl Options {
    pub fn parse(arguments: &[String]) -> Result<Self, Failure> {
        let mut options = Self { minutes: 10, steps: 60, seed: None, filesystems: Vec::new() };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            let mut number = || {
                let value = rest.next().and_then(|value| value.parse().ok());
                value.ok_or_else(|| Failure::Usage(format!("{argument} takes a number")))
            };
            match argument.as_str() {
                "--minutes" => options.minutes = number()?,
                "--steps" => options.steps = number()?,
                "--seed" => options.seed = Some(number()?),
                word => match ALL.into_iter().find(|f| f.name() == word) {
                    Some(filesystem) => options.filesystems.push(filesystem),
                    None => return Err(Failure::Usage(format!("'{word}' is no file system that lives are played on"))),
                },
            }
        }
        Ok(options)
    }
}

pub fn run(options: &Options, arguments: &[String]) -> Result<(), Failure> {
    if rustix::process::geteuid().is_root() && std::env::var_os(INSIDE).is_none() {
        return in_own_namespace(arguments);
    }
    let workspace = Workspace::find()?;
    let binary = match std::env::var_os("WHATIF_BIN") {
        Some(binary) => PathBuf::from(binary),
        None => build(&workspace)?,
    };
    let places = places(options, &workspace)?;
    let deadline = Instant::now() + Duration::from_secs(options.minutes * 60);
    let first = options.seed.unwrap_or_else(|| SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |d| d.as_secs()));
    let mut lives = 0;
    for seed in first.. {
        for (filesystem, place) in &places {
            if Instant::now() >= deadline {
                println!("{lives} lives, nothing lost");
                return Ok(());
            }
            println!("seed {seed} on {}", filesystem.name());
            let mut cargo =
                workspace.cargo(&["test", "--quiet", "--package", "whatif-e2e", "--test", "e2e", "--", "nothing_lost::"]);
            cargo.env("WHATIF_BIN", &binary).env("WHATIF_TEST_DIR", place).env("WHATIF_SEED", seed.to_string());
            cargo.env("WHATIF_STEPS", options.steps.to_string()).env("RUST_BACKTRACE", "0");
            let status = cargo.status().map_err(on("run", Path::new("cargo test")))?;
            if !status.success() {
                let (steps, name) = (options.steps, filesystem.name());
                return Err(Failure::new(format!("again: cargo xtask fuzz --seed {seed} --steps {steps} {name}")));
            }
            lives += 1;
        }
    }
    Ok(())
}

/// This same program again, where what it mounts is seen by nobody else and goes with it.
fn in_own_namespace(arguments: &[String]) -> Result<(), Failure> {
    let itself = std::env::current_exe().map_err(on("find", Path::new("xtask")))?;
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--propagation", "private", "--"]).arg(itself).arg("fuzz").args(arguments).env(INSIDE, "1");
    match unshare.status().map_err(on("run", Path::new("unshare")))? {
        status if status.success() => Ok(()),
        status => Err(Failure::new(format!("the fuzzer ended: {status}"))),
    }
}

fn build(workspace: &Workspace) -> Result<PathBuf, Failure> {
    let status = workspace.cargo(&["build", "--release"]).status().map_err(on("run", Path::new("cargo build")))?;
    if status.success() { Ok(workspace.release_binary()) } else { Err(Failure::new("the release build failed")) }
}

/// A directory on each file system.
fn places(options: &Options, workspace: &Workspace) -> Result<Vec<(Filesystem, PathBuf)>, Failure> {
    let wanted = if options.filesystems.is_empty() { ALL.to_vec() } else { options.filesystems.clone() };
    let mut places = Vec::new();
    for filesystem in wanted {
        if !filesystem.can_be_made() {
            println!("skip: {} cannot be made here (as root, with mkfs.{0} installed, it can)", filesystem.name());
            continue;
        }
        places.push((filesystem, make(filesystem, &workspace.target)?));
    }
    Ok(places)
}

fn make(filesystem: Filesystem, target: &Path) -> Result<PathBuf, Failure> {
    let here = PathBuf::from("/var/tmp");
    if filesystem == Filesystem::Here {
        return Ok(here);
    }
    let name = filesystem.name();
    let place = here.join(format!("whatif-fuzz-{name}"));
    fs::create_dir_all(&place).map_err(on("create", &place))?;
    if filesystem == Filesystem::Tmpfs {
        call("mount", &["-t", "tmpfs", "tmpfs"], &place)?;
        return Ok(place);
    }
    let image = target.join(format!("fuzz-{name}.img"));
    let file = fs::File::create(&image).map_err(on("create", &image))?;
    file.set_len(IMAGE_SIZE).map_err(on("extend", &image))?;
    let force = if filesystem == Filesystem::Ext4 { "-F" } else { "-f" };
    call(&format!("mkfs.{name}"), &["-q", force], &image)?;
    call("mount", &["-o", "loop", &image.to_string_lossy()], &place)?;
    // The file lives as long as it is mounted.
    fs::remove_file(&image).map_err(on("remove", &image))?;
    Ok(place)
}

fn call(program: &str, arguments: &[&str], last: &Path) -> Result<(), Failure> {
    let path = programs::find(program).unwrap_or_else(|| PathBuf::from(program));
    let status = Command::new(&path).args(arguments).arg(last).stdin(Stdio::null()).status();
    match status.map_err(on("run", &path))? {
        status if status.success() => Ok(()),
        status => Err(Failure::new(format!("{program} {}: {status}", last.display()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_or_refused() {
        let parse = |words: &[&str]| Options::parse(&words.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>());
        let options = parse(&["--minutes", "120", "--seed", "7", "xfs", "here"]).unwrap();
        assert_eq!((options.minutes, options.seed, options.steps), (120, Some(7), 60));
        assert_eq!(options.filesystems, [Filesystem::Xfs, Filesystem::Here]);
        assert!(matches!(parse(&["--minutes"]), Err(Failure::Usage(_))));
        assert!(matches!(parse(&["ntfs"]), Err(Failure::Usage(_))));
    }
}
