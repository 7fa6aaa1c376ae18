//! `cargo xtask backend`: end-to-end tests whose sandboxes have another backend than the default one.

use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::attacks;
use crate::failure::Failure;
use crate::workspace::Workspace;

const BACKENDS: [&str; 3] = ["overlay", "fuse", "copy"];

/// Often only root may open the device, and the tests are run as an ordinary user as well. They get a device of their own that
/// all may open, in a mount namespace of their own.
const OPEN_DEVICE: &str =
    r#"d=$(mktemp -d) && mknod -m 666 "$d/fuse" c 10 229 && mount --bind "$d/fuse" /dev/fuse && rm -r "$d" && exec "$@""#;

/// Stands for all files that play attacks.
const ATTACKS: &str = "attacks";

/// Becomes cargo, with the tests that are named, or all.
pub fn run(arguments: &[String]) -> Result<(), Failure> {
    let Some((backend, tests)) = arguments.split_first() else {
        return Err(Failure::Usage("backend takes the name of one".to_owned()));
    };
    if !BACKENDS.contains(&backend.as_str()) {
        return Err(Failure::Usage(format!("'{backend}' is none of the backends: {}", BACKENDS.join(", "))));
    }
    let workspace = Workspace::find()?;
    let binary = std::env::var_os("WHATIF_BIN").map_or_else(|| built(&workspace), |binary| Ok(binary.into()))?;
    let cargo = workspace.cargo(&["test", "--package", "whatif-e2e", "--no-fail-fast"]);
    let mut command = if backend == "fuse" { with_device_for_all(cargo) } else { cargo };
    let attacks = if tests.iter().any(|test| test == ATTACKS) { attacks::files(&workspace)? } else { Vec::new() };
    let tests = tests.iter().filter(|test| *test != ATTACKS).chain(&attacks);
    command.args(tests.flat_map(|test| ["--test", test]));
    command.env("WHATIF_TEST_BACKEND", backend).env("WHATIF_BIN", binary);
    Err(Failure::new(format!("failed to start the tests: {}", command.exec())))
}

pub fn built(workspace: &Workspace) -> Result<std::path::PathBuf, Failure> {
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
