//! `whatif`: the command line, and whatever role it plays for a sandbox that it made.
#![cfg_attr(not(test), no_main)]
#![cfg_attr(test, allow(dead_code, reason = "tests begin elsewhere"))]
#![deny(unsafe_op_in_unsafe_fn)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod apply_report;
mod args;
mod changes;
mod chosen;
mod commands;
mod ending;
mod exit;
mod failure;
mod foreground;
mod interrupt;
mod output;
mod person;
mod progress;
mod race;
#[cfg(test)]
mod reference;
mod review;
mod spelled;
mod stack;
mod summary;
mod table;
mod unreached;
mod whole_file;

use std::os::unix::process::CommandExt;

use whatif_engine::EngineError;
use whatif_engine::ground::GroundError;
use whatif_engine::ground::limits::Scope;
use whatif_engine::role::Role;
use whatif_sys::inherited::Inherited;
use whatif_sys::program::AtOnce;

use crate::exit::ExitCode;
use crate::failure::Failure;

/// What `exec` and `run` need of it, `cargo xtask bench commands` says whether it still fits.
const AT_ONCE: AtOnce = AtOnce { arena: 64 << 10, stack: 72 << 10 };

whatif_sys::program!(begin, memory: 256 << 10, at_once: AT_ONCE);

fn begin() -> u8 {
    work().0
}

fn work() -> ExitCode {
    // SAFETY: nothing has run yet that could own a descriptor.
    let inherited = unsafe { Inherited::of_this_process() };
    if let Some(role) = Role::of(std::env::args_os()) {
        return if role.play(inherited) { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    if std::env::args_os().nth(1).is_some_and(|first| first == "attend") {
        // It stays for long.
        let _ = inherited.only_standard();
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
    if let Some(program) = cli.program.as_deref().filter(|_| std::env::var_os(whatif_engine::ground::limits::IN_SCOPE).is_none()) {
        output.note(format!("whatif: running '{}' in a sandbox, as 'whatif run' does", output::printable(program)));
    }
    match commands::dispatch(cli, &output) {
        Ok(code) => output::honest(code),
        Err(Failure::Engine(EngineError::Ground(GroundError::ScopeNeeded { scope }))) => output.error(&start_anew_in(scope)),
        Err(error) => output.error(&error),
    }
}

/// The same command once more, below the user's service manager, where it has control groups. Returns only if that fails.
fn start_anew_in(scope: Scope) -> EngineError {
    let Ok(program) = std::env::current_exe() else { return GroundError::ScopeNeeded { scope }.into() };
    let mut command = scope.command(program.as_os_str());
    whatif_sys::settings::restore_umask();
    let _failed = command.args(std::env::args_os().skip(1)).env(whatif_engine::ground::limits::IN_SCOPE, "1").exec();
    GroundError::ScopeNeeded { scope }.into()
}
