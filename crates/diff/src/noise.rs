//! Changes that say nothing about what a command did: caches, logs, histories.

use std::path::Path;

const NOISE_DIRECTORIES: [&str; 12] = [
    "__pycache__",
    ".cache",
    ".pytest_cache",
    ".mypy_cache",
    ".ruff_cache",
    "_cacache",
    "_logs",
    ".npm",
    ".nv",
    ".dbus",
    "thumbnails",
    ".ccache",
];
const NOISE_SYSTEM: [&str; 8] = [
    "/var/cache",
    "/var/log",
    "/var/tmp",
    "/var/lib/apt/lists",
    "/var/lib/man-db",
    "/var/lib/systemd",
    "/var/spool",
    "/etc/ld.so.cache",
];
const NOISE_ENDINGS: [&str; 4] = [".pyc", ".log", ".lesshst", "_history"];

/// `project` is never noise as a whole: a project in `/var/tmp` or `~/.cache` is still what the user works on.
#[must_use]
pub fn is_noise(path: &Path, project: &Path) -> bool {
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    if NOISE_ENDINGS.iter().any(|e| name.ends_with(e)) {
        return true;
    }
    let (relative, in_project) = path.strip_prefix(project).map_or((path, false), |r| (r, true));
    let named = relative.components().any(|c| NOISE_DIRECTORIES.iter().any(|n| c.as_os_str() == *n));
    named || (!in_project && NOISE_SYSTEM.iter().any(|p| path.starts_with(p)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_and_logs_are_noise_and_work_is_not() {
        let project = Path::new("/var/tmp/p");
        for noise in
            ["/home/a/.cache/x", "/var/log/dpkg.log", "/var/tmp/other", "/var/tmp/p/src/__pycache__/a.pyc", "/home/a/.bash_history"]
        {
            assert!(is_noise(Path::new(noise), project), "{noise}");
        }
        for work in ["/var/tmp/p/a", "/etc/hosts", "/usr/bin/perl", "/home/a/.bashrc"] {
            assert!(!is_noise(Path::new(work), project), "{work}");
        }
    }
}
