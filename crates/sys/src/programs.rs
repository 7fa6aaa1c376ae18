//! Programs of the host that we run ourselves, such as git: looked for where neither a project nor another user can put one.
//!
//! What a shell would run is what `PATH` says, and that may begin with `.` or name a directory of the project. Whatever ran in a
//! sandbox can have a file of that name approved among a thousand others.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt;
use std::path::{Component, Path, PathBuf};

/// Without a `PATH`.
pub const USUAL: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

const NOWHERE: &str = "/var/empty";

#[derive(Clone, Debug)]
pub struct Programs {
    directories: Vec<PathBuf>,
    /// The project, as it was named and as it is; empty if it holds the user's own home: what is set up there is the user's.
    closed: Vec<PathBuf>,
}

impl Programs {
    /// Of this search path, what is absolute, not in the project, and not writable by everybody.
    #[must_use]
    pub fn new(path: &OsStr, home: &Path, project: &Path) -> Self {
        let real = |path: &Path| path.canonicalize().unwrap_or_else(|_| path.to_owned());
        let (real_home, real_project) = (real(home), real(project));
        let holds_home = real_home.starts_with(&real_project);
        let closed = if holds_home { Vec::new() } else { vec![real_project, project.to_owned()] };
        let mut programs = Self { directories: Vec::new(), closed };
        // A name relative to wherever one is would be looked up in the project.
        let directories = std::env::split_paths(path).filter(|directory| directory.is_absolute());
        programs.directories = directories.filter(|directory| programs.is_open(directory) && !is_everybodys(directory)).collect();
        programs
    }

    /// Whether the path does not lead into the project.
    #[must_use]
    pub fn is_open(&self, path: &Path) -> bool {
        let real = path.canonicalize().unwrap_or_else(|_| lexically_normal(path));
        !self.closed.iter().any(|closed| real.starts_with(closed) || path.starts_with(closed))
    }

    /// The program a shell would run, unless it lies in the project.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<PathBuf> {
        self.directories.iter().map(|directory| directory.join(name)).find(|path| {
            let metadata = std::fs::metadata(path);
            metadata.is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0) && self.is_open(path)
        })
    }

    /// For what the program itself starts.
    #[must_use]
    pub fn search_path(&self) -> OsString {
        // An empty one would mean the directory that a program is started in.
        let path = std::env::join_paths(&self.directories).unwrap_or_default();
        if path.is_empty() { OsString::from(NOWHERE) } else { path }
    }
}

/// Anybody can put a file there, and a sticky bit does not change that.
fn is_everybodys(directory: &Path) -> bool {
    std::fs::metadata(directory).is_ok_and(|m| m.permissions().mode() & 0o002 != 0)
}

/// For what does not exist.
fn lexically_normal(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut normal, component| {
        match component {
            Component::ParentDir => {
                normal.pop();
            }
            Component::CurDir => {}
            other => normal.push(other),
        }
        normal
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_directories_that_nobody_else_fills_are_searched() {
        let programs =
            |path: &str, project: &str| Programs::new(OsStr::new(path), Path::new("/nonexistent/home"), Path::new(project));
        let kept =
            programs(".:bin::/tmp:/usr/bin:/nonexistent/project/bin:/nonexistent/project/../project/x", "/nonexistent/project");
        assert_eq!(kept.search_path(), "/usr/bin");
        assert_eq!(kept.find("env"), Some(PathBuf::from("/usr/bin/env")));
        assert_eq!(programs("/usr/bin", "/usr").find("env"), None, "it is in the project");
        assert_eq!(programs(".", "/nonexistent/project").search_path(), NOWHERE);
    }
}
