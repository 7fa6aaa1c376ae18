//! `whatifd`: the engine over HTTP. It translates, authenticates and renders; it decides nothing.
#![deny(unsafe_op_in_unsafe_fn)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod access;
mod app;
mod args;
mod extract;
mod feed;
mod metrics;
mod once;
mod openapi;
mod peer;
mod problem;
mod reply;
mod routes;
mod server;
mod spelled;
mod start;
mod token;

use std::process::ExitCode;

use whatif_engine::role::Role;
use whatif_sys::inherited::Inherited;

fn main() -> ExitCode {
    // SAFETY: nothing has run yet that could own a descriptor.
    let inherited = unsafe { Inherited::of_this_process() };
    // The engine starts the program that it is in for parts of a sandbox, and the chores for what can wait.
    if let Some(role) = Role::of(std::env::args_os()) {
        return if role.play(inherited) { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    let _ = inherited.only_standard();
    whatif_sys::settings::keep_own_files_usable();
    whatif_sys::signals::ignore_file_size_signal();
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let ended = match whatif_client::chores::of(&words) {
        Some(chores) => start::do_chores(&chores),
        None => start::serve(args::parse()),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            start::tell(&failure);
            ExitCode::from(125)
        }
    }
}
