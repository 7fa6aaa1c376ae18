//! Keeping what is in memory from files and from programs that read crashes.

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// For this process and all it starts. With a limit of 0 the kernel writes no file and still starts a handler that `core_pattern`
/// pipes to; with 1 it does neither. A hard limit of 0 from outside cannot be raised.
pub fn forbid() -> io::Result<()> {
    let most = getrlimit(Resource::Core).maximum.map_or(1, |hard| hard.min(1));
    Ok(setrlimit(Resource::Core, Rlimit { current: Some(most), maximum: Some(most) })?)
}
