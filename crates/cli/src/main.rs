//! `whatif`: the command line, and (as `whatif keeper`) the keeper of one sandbox.
#![deny(unsafe_op_in_unsafe_fn)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod apply_report;
mod args;
mod changes;
mod chores;
mod chosen;
mod commands;
mod context;
mod ending;
mod exit;
mod failure;
mod foreground;
mod interrupt;
mod output;
mod person;
mod progress;
mod race;
mod review;
mod spelled;
mod stack;
mod table;
mod unreached;
mod whole_file;

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::process::ExitCode;

use whatif_engine::EngineError;
use whatif_engine::ground::limits::Scope;
use whatif_types::NetMode;

use crate::failure::Failure;

fn main() -> ExitCode {
    // A keeper is started by us thousands of times a day; it does not wait for an argument parser.
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_some_and(|first| first == "keeper") && arguments.next().is_some_and(|id| id.len() == 12) {
        return keeper(&arguments.next().unwrap_or_default());
    }
    if std::env::args_os().nth(1).is_some_and(|first| first == whatif_engine::inside::restack::COMMAND) {
        return restack();
    }
    if std::env::args_os().nth(1).is_some_and(|first| first == whatif_engine::network::supervisor::COMMAND) {
        return supervisor();
    }
    if std::env::args_os().nth(1).is_some_and(|first| first == "attend") {
        // SAFETY: it stays for long, and nothing has run yet that could own a descriptor.
        unsafe { whatif_sys::command::close_inherited() };
    }
    whatif_sys::settings::keep_own_files_usable();
    whatif_sys::signals::restore_default_sigpipe();
    whatif_sys::signals::ignore_file_size_signal();
    // Reading the arguments takes more than some limits leave.
    if let Err(too_small) = stack::check() {
        let wants_json = std::env::args_os().take_while(|argument| argument != "--").any(|argument| argument == "--json");
        return output::Output::new(wants_json).error(&too_small);
    }
    let cli = args::parse();
    let output = output::Output::new(cli.json);
    match commands::dispatch(cli, &output) {
        Ok(code) => output::honest(code),
        Err(Failure::Engine(EngineError::ScopeNeeded { scope })) => output.error(&start_anew_in(scope)),
        Err(error) => output.error(&error),
    }
}

/// The same command once more, below the user's service manager, where it has control groups. Returns only if that fails.
fn start_anew_in(scope: Scope) -> EngineError {
    let Ok(program) = std::env::current_exe() else { return EngineError::ScopeNeeded { scope } };
    let mut command = scope.command(program.as_os_str());
    whatif_sys::settings::restore_umask();
    let _failed = command.args(std::env::args_os().skip(1)).env(whatif_engine::ground::limits::IN_SCOPE, "1").exec();
    EngineError::ScopeNeeded { scope }
}

fn restack() -> ExitCode {
    let _ = rustix::thread::set_name(c"whatif-restack");
    // SAFETY: the helper is executed with its orders on standard input, and nothing has run yet that could own that.
    let input = unsafe { whatif_sys::command::adopt(0) };
    match whatif_engine::inside::restack::serve(input) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn supervisor() -> ExitCode {
    // A race that starts it attends to its own signals.
    whatif_sys::signals::unblock_all();
    // SAFETY: a supervisor is executed with its instructions on standard input, and nothing has run yet that could own anything.
    let input = unsafe {
        whatif_sys::command::close_inherited();
        whatif_sys::command::adopt(0)
    };
    match whatif_engine::network::supervisor::serve(input) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn keeper(net: &OsStr) -> ExitCode {
    let first = whatif_sys::keeper::FIRST_PASSED;
    // SAFETY: a keeper is executed with exactly these four descriptors, and nothing has run yet that could own them.
    let [birth, listener, alive, ids] = unsafe { [0, 1, 2, 3].map(|number| whatif_sys::command::adopt(first + number)) };
    let net = match net.to_str() {
        Some("host") => NetMode::Host,
        Some("filtered") => NetMode::Filtered,
        _ => NetMode::None,
    };
    match whatif_engine::inside::live(birth, listener, [alive, ids], net) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}
