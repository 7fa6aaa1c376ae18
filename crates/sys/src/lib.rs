//! The fenced place for `unsafe`: system calls that no safe wrapper offers, each with the reason it is sound.
//!
//! What rustix offers safely is called from the other crates directly; only the gaps live here.
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod absence;
pub mod access_list;
pub mod allocation;
pub mod arena;
mod bpf;
pub mod byte_lock;
pub mod capabilities;
pub mod children;
pub mod clock;
pub mod command;
pub mod core_dumps;
pub mod direct;
pub mod file_handle;
pub mod file_server;
pub mod filesystem_ids;
pub mod holder;
pub mod inherited;
pub mod keeper;
pub mod kernel_table;
pub mod landlock;
pub mod last_words;
pub mod loopback;
pub mod memory;
pub mod mount;
pub mod namespaces;
pub mod onlooker;
pub mod open_files;
pub mod overlay;
pub mod patience;
pub mod peer;
pub mod process;
pub mod program;
pub mod programs;
pub mod quota;
pub mod random;
mod raw;
pub mod run_to_end;
pub mod scheduling;
pub mod seccomp;
pub mod settings;
pub mod shares;
pub mod signals;
pub mod supervisor_filter;
pub mod trial;
pub mod unsent;
pub mod wait;

use std::io;

/// Turns the `-1` of a system call into the error it stands for.
fn check(result: libc::c_long) -> io::Result<libc::c_long> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}
