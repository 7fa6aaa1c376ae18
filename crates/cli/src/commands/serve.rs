//! `whatif serve`: becomes `whatifd`, a program of its own, so that those who need no daemon do not carry one.

use std::ffi::OsStr;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use whatif_engine::EngineError;

use super::Outcome;
use crate::failure::Failure;
use crate::output::Output;

const PROGRAM: &str = "whatifd";

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  whatif serve                           at 127.0.0.1:7717; prints where the token is\n  whatif serve --listen 127.0.0.1:0      at a free port, which is printed"
)]
pub struct Args {
    /// Address and port to listen on, of loopback; port 0 chooses a free one
    #[arg(long, value_name = "ADDR:PORT", default_value = "127.0.0.1:7717")]
    listen: String,
    /// File with the token that clients send; created with mode 0600 if it does not exist
    #[arg(long, value_name = "FILE")]
    token_file: Option<PathBuf>,
    /// Also listen on this unix socket, for processes of the same user
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
}

pub fn execute(args: &Args, output: &Output) -> Outcome {
    let program = find().ok_or_else(missing)?;
    let mut command = Command::new(&program);
    command.args(output.is_json().then_some("--json"));
    command.arg("--listen").arg(&args.listen);
    let options = [("--token-file", &args.token_file), ("--socket", &args.socket)];
    for (option, value) in options {
        command.args(value.iter().flat_map(|value| [OsStr::new(option), value.as_os_str()]));
    }
    whatif_sys::settings::restore_umask();
    Err(EngineError::io("execute", &program, command.exec()).into())
}

/// Beside this program, as a build and an archive have it, or where programs are.
fn find() -> Option<PathBuf> {
    let own = std::env::current_exe().ok();
    let beside = own.as_deref().and_then(Path::parent).map(|directory| directory.join(PROGRAM));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).filter(|directory| directory.is_absolute()).map(|directory| directory.join(PROGRAM));
    beside.into_iter().chain(on_path).find(|program| is_program(program).unwrap_or(false))
}

fn is_program(path: &Path) -> io::Result<bool> {
    let found = std::fs::metadata(path)?;
    Ok(found.is_file() && found.permissions().mode() & 0o111 != 0)
}

fn missing() -> Failure {
    Failure::usage(
        "daemon_missing",
        format!("the daemon's program, {PROGRAM}, is neither beside whatif nor in PATH"),
        "build it from the sources of whatif: cargo build --release -p whatif-daemon",
    )
}
