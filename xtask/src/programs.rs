//! Finds programs on the search path.

use std::path::PathBuf;

/// Always searched too: an ordinary user's `PATH` on Debian lacks the directories of system tools.
const SYSTEM: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/bin"];

pub fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let directories = std::env::split_paths(&path).chain(SYSTEM.map(PathBuf::from));
    directories.map(|directory| directory.join(name)).find(|candidate| candidate.is_absolute() && candidate.is_file())
}
