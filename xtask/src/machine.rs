//! `cargo xtask machine`: end-to-end tests on the kernel that most users have: Debian's own, with cgroup v2 only, in a virtual machine.
//!
//! Its system is made of packages that are installed here, so nothing but the kernel is fetched. It is emulated: whatever this
//! machine can or cannot do, that one has the same processor. That takes its time, so a slice is run by default.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::backend::built;
use crate::failure::{Failure, on};
use crate::packages;
use crate::subjects::{self, Subject};
use crate::workspace::Workspace;

/// What differs most between kernels: mounts, what a view shows, layers that change under what runs, limits by control groups, holding
/// still. Each as root and as an ordinary user. A network with rules is made for every sandbox.
const SLICE: [&str; 10] = [
    "stale_views files_made_just_before_are_no_conflict",
    "moved_meanwhile a_file_that_reality_moved_away",
    "renamed_directories another_sandbox_keeps_what_it_renamed",
    "snapshot_contents memory_and_environment_stay",
    "held_still a_killed_look_leaves_nothing_held",
    "undo undo_restores_every_detail",
    "limits memory_ends_at_its_limit",
    "limits_exact nothing_is_written_beyond",
    "limits_exact nobody_inside_leaves",
    "fuse_views a_directory_that_was_made_again_is_empty",
];

/// What the program with the tests is called in the machine.
const PROGRAM: &str = "e2e";

/// A test that hangs must not hang whoever waits for it.
const PATIENCE: &str = "1200";

pub fn run(arguments: &[String]) -> Result<(), Failure> {
    packages::provide_machine()?;
    let workspace = Workspace::find()?;
    if arguments.is_empty() { run_tests(&workspace, &SLICE.map(str::to_owned)) } else { run_tests(&workspace, arguments) }
}

/// Why there can be no such machine here, if there cannot.
pub fn missing() -> Option<&'static str> {
    if !rustix::process::geteuid().is_root() {
        return Some("only root can make its disk, with files of everybody");
    }
    (!packages::has_machine()).then_some("the programs for it are missing")
}

fn run_tests(workspace: &Workspace, wanted: &[String]) -> Result<(), Failure> {
    let place = workspace.target.join("machine");
    fill(workspace, &place.join("brought"), wanted)?;
    let mut build = Command::new(workspace.root.join("xtask/machine/build.sh"));
    succeed(build.arg(place.join("brought")).current_dir(&place), "make the machine's disk")?;
    boot(&place)
}

/// What is tested, and by what.
fn fill(workspace: &Workspace, brought: &Path, wanted: &[String]) -> Result<(), Failure> {
    let _ = fs::remove_dir_all(brought);
    fs::create_dir_all(brought).map_err(on("create", brought))?;
    let binary = std::env::var_os("WHATIF_BIN").map_or_else(|| built(workspace), |binary| Ok(PathBuf::from(binary)))?;
    fs::copy(&binary, brought.join("whatif")).map_err(on("copy", &binary))?;
    let mut script = String::from("failed=0\n");
    let subjects = subjects::built(workspace)?;
    for wanted in wanted {
        let (subject, tests) = chosen(&subjects, wanted)?;
        let program = brought.join(PROGRAM);
        if !program.exists() {
            fs::copy(&subject.program, &program).map_err(on("copy", &subject.program))?;
        }
        script.push_str(&format!("/{PROGRAM} --exact {} --test-threads 2 || failed=1\n", tests.join(" ")));
    }
    script.push_str("exit $failed\n");
    fs::write(brought.join("tests"), script).map_err(on("write", brought))
}

/// A subject, and those of its tests that have the word after its name in theirs.
fn chosen<'a>(subjects: &'a [Subject], wanted: &str) -> Result<(&'a Subject, Vec<&'a str>), Failure> {
    let (name, word) = wanted.split_once(' ').unwrap_or((wanted, ""));
    let none = || Failure::new(format!("there are no tests called {wanted}"));
    let subject = subjects.iter().find(|subject| subject.name == name).ok_or_else(none)?;
    let tests: Vec<_> = subject.tests.iter().map(String::as_str).filter(|test| test.contains(word)).collect();
    if tests.is_empty() { Err(none()) } else { Ok((subject, tests)) }
}

/// Shows what it says, and takes its word for how the tests ended.
fn boot(place: &Path) -> Result<(), Failure> {
    let mut machine = Command::new("timeout");
    machine.args([PATIENCE, "qemu-system-x86_64", "-accel", "tcg", "-smp", "2", "-m", "3G"]);
    machine.args(["-nodefaults", "-no-reboot", "-nographic", "-serial", "stdio", "-kernel", "kernel", "-initrd", "initrd"]);
    machine.args(["-drive", "file=disk,if=virtio,format=raw,cache=unsafe"]);
    machine.args(["-append", "console=ttyS0 quiet panic=-1 random.trust_cpu=on cgroup_no_v1=all"]);
    machine.current_dir(place).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut started = machine.spawn().map_err(on("start", Path::new("qemu-system-x86_64")))?;
    let mut ended = None;
    for line in started.stdout.take().into_iter().flat_map(|output| BufReader::new(output).split(b'\n')) {
        let line = line.map_err(on("listen to", Path::new("the machine")))?;
        let line = String::from_utf8_lossy(&line);
        let line = line.trim_end_matches('\r');
        println!("{line}");
        ended = line.strip_prefix("ENDED ").map(str::to_owned).or(ended);
    }
    let _ = started.wait();
    match ended.as_deref() {
        Some("0") => Ok(()),
        Some(_) => Err(Failure::new("tests failed in the machine")),
        None => Err(Failure::new("the machine ended before the tests did")),
    }
}

fn succeed(command: &mut Command, what: &str) -> Result<(), Failure> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(Failure::new(format!("failed to {what}: {status}"))),
        Err(error) => Err(Failure::new(format!("failed to {what}: {error}"))),
    }
}
