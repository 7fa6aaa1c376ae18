//! `cargo xtask backend`: end-to-end tests whose sandboxes have another backend than the default one.

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Command;

use crate::attacks;
use crate::failure::{Failure, on};
use crate::subjects;
use crate::workspace::Workspace;

const BACKENDS: [&str; 3] = ["overlay", "fuse", "copy"];

/// Often only root may open the device, and the tests are run as an ordinary user as well. They get a device of their own that
/// all may open, in a mount namespace of their own.
const OPEN_DEVICE: &str =
    r#"d=$(mktemp -d) && mknod -m 666 "$d/fuse" c 10 229 && mount --bind "$d/fuse" /dev/fuse && rm -r "$d" && exec "$@""#;

/// Stands for all subjects that play attacks.
const ATTACKS: &str = "attacks";

/// Runs the tests of the subjects that are named, or all.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    let Some((backend, names)) = arguments.split_first() else {
        return Err(Failure::Usage("backend takes the name of one".to_owned()));
    };
    if !BACKENDS.contains(&backend.as_str()) {
        return Err(Failure::Usage(format!("'{backend}' is none of the backends: {}", BACKENDS.join(", "))));
    }
    let workspace = Workspace::find()?;
    let binary = std::env::var_os("WHATIF_BIN").map_or_else(|| built(&workspace), |binary| Ok(PathBuf::from(binary)))?;
    let attacks = if names.iter().any(|name| name == ATTACKS) { attacks::subjects(&workspace)? } else { Vec::new() };
    let names: Vec<String> = names.iter().filter(|name| *name != ATTACKS).cloned().chain(attacks).collect();
    let subjects = if names.is_empty() { subjects::built(&workspace)? } else { subjects::selected(&workspace, &names)? };
    let mut failed = Vec::new();
    for subject in &subjects {
        let mut command = subject.command();
        command.env("WHATIF_TEST_BACKEND", backend).env("WHATIF_BIN", &binary).current_dir(workspace.root.join("e2e"));
        let mut command = if backend == "fuse" { with_device_for_all(command) } else { command };
        println!("\n     Running {}", subject.name);
        if !command.status().map_err(on("start", &subject.program))?.success() {
            failed.push(subject.name.as_str());
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(Failure::new(format!("failed with {backend}: {}", failed.join(", ")))) }
}

pub fn built(workspace: &Workspace) -> Result<PathBuf, Failure> {
    match workspace.cargo(&["build", "--release"]).status() {
        Ok(status) if status.success() => Ok(workspace.release_binary()),
        _ => Err(Failure::new("failed to build whatif")),
    }
}

/// The same command where the ordinary user of the tests can have the backend `fuse`, if root can arrange that.
pub fn with_device_for_all(command: Command) -> Command {
    let is_closed = std::fs::metadata("/dev/fuse").is_ok_and(|device| device.mode() & 0o006 != 0o006);
    if is_closed && rustix::process::geteuid().is_root() { in_namespace(&command) } else { command }
}

fn in_namespace(command: &Command) -> Command {
    let mut unshare = Command::new("unshare");
    unshare.args(["--mount", "--propagation", "private", "sh", "-c", OPEN_DEVICE, "sh"]);
    unshare.arg(command.get_program()).args(command.get_args());
    unshare.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(directory) = command.get_current_dir() {
        unshare.current_dir(directory);
    }
    unshare
}
