//! Changes that say nothing about what a command did: caches, logs, histories.

use std::path::Path;

/// Left behind by tools that make them anew whenever they like. Nobody keeps work in them, in a project either.
const DERIVED: [&str; 4] = ["__pycache__", ".pytest_cache", ".mypy_cache", ".ruff_cache"];
const CACHES: [&str; 8] = [".cache", "_cacache", "_logs", ".npm", ".nv", ".dbus", "thumbnails", ".ccache"];
const SYSTEM: [&str; 7] =
    ["/var/cache", "/var/log", "/var/lib/apt/lists", "/var/lib/man-db", "/var/lib/systemd", "/var/spool", "/etc/ld.so.cache"];

/// Where package managers keep what they downloaded, beneath a home or the root.
const PACKAGE_CACHES: [&str; 12] = [
    ".cache/pip",
    ".cache/uv",
    ".cache/yarn",
    ".cache/pnpm",
    ".cache/go-build",
    ".npm/_cacache",
    ".npm/_logs",
    ".cargo/registry",
    ".cargo/git",
    "go/pkg/mod/cache",
    ".m2/repository",
    ".gradle/caches",
];
const SYSTEM_PACKAGE_CACHES: [&str; 2] = ["/var/cache/apt", "/var/lib/apt/lists"];

/// Whether a path outside the project holds what a package manager downloaded, or could download again.
#[must_use]
pub fn is_package_cache(path: &Path) -> bool {
    let is_in = |cache: &&str| {
        let parts = Path::new(cache).components().count();
        path.ancestors().any(|above| above.ends_with(cache) && above.components().count() > parts)
    };
    SYSTEM_PACKAGE_CACHES.iter().any(|cache| path.starts_with(cache)) || PACKAGE_CACHES.iter().any(is_in)
}

/// What is in `project` is what the user works on, logs and caches that lie there too; wherever it is itself.
#[must_use]
pub fn is_noise(path: &Path, project: &Path) -> bool {
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    let (relative, in_project) = path.strip_prefix(project).map_or((path, false), |r| (r, true));
    let is_within = |names: &[&str]| relative.components().any(|c| names.iter().any(|n| c.as_os_str() == *n));
    if name.ends_with(".pyc") || is_within(&DERIVED) {
        return true;
    }
    let is_history = name.starts_with('.') && (name.ends_with("_history") || name == ".lesshst");
    !in_project && (is_history || is_within(&CACHES) || SYSTEM.iter().any(|p| path.starts_with(p)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_caches_are_known_by_their_places() {
        let is = |path: &str| is_package_cache(Path::new(path));
        assert!(["/home/a/.cache/pip/http/1/2", "/root/.npm/_cacache/x", "/var/cache/apt/pkgcache.bin"].into_iter().all(is));
        assert!(!["/home/a/.cache/x", "/home/a/.cargo/bin/x", "/home/a/.npm/x", "/etc/pip"].into_iter().any(is));
    }

    #[test]
    fn caches_and_logs_are_noise_and_work_is_not() {
        let project = Path::new("/var/tmp/p");
        for noise in [
            "/home/a/.cache/x",
            "/var/log/dpkg.log",
            "/var/tmp/p/src/__pycache__/a.pyc",
            "/home/a/.bash_history",
            "/home/a/.lesshst",
        ] {
            assert!(is_noise(Path::new(noise), project), "{noise}");
        }
        let in_project =
            ["/var/tmp/p/a", "/var/tmp/p/results.log", "/var/tmp/p/.cache/f", "/var/tmp/p/.npm/x", "/var/tmp/p/.x_history"];
        let elsewhere =
            ["/etc/hosts", "/usr/bin/perl", "/home/a/.bashrc", "/home/a/results.log", "/var/tmp/report", "/home/a/my_history"];
        for work in in_project.into_iter().chain(elsewhere) {
            assert!(!is_noise(Path::new(work), project), "{work}");
        }
    }
}
