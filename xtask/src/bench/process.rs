//! What `/proc` tells about a process.

use std::path::{Path, PathBuf};

pub fn entry(pid: u64) -> PathBuf {
    Path::new("/proc").join(pid.to_string())
}

/// One that has ended and waits for its parent to notice is not alive. (The init of a container may take seconds.)
pub fn is_alive(pid: u64) -> bool {
    let stat = std::fs::read_to_string(entry(pid).join("stat")).unwrap_or_default();
    // The state follows the name, which may hold anything.
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_ended_is_not_alive_even_before_it_is_reaped() {
        assert!(is_alive(std::process::id().into()));
        let mut child = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
        let pid = child.id().into();
        assert!(is_alive(pid));
        child.kill().unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while is_alive(pid) {
            assert!(std::time::Instant::now() < deadline, "a killed process stays alive");
        }
        assert!(entry(pid).exists(), "it is still there, as a zombie");
        child.wait().unwrap();
    }
}
