//! Looks at reality: what is mounted, what the user can write, what must be carried into a private `/run`.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat};
use whatif_types::mountinfo::{self, Mount};

use crate::plan::MADE_ANEW;
use crate::{PathError, on};

/// What was found.
#[derive(Clone, Debug)]
pub struct Survey {
    pub mounts: Vec<Mount>,
    pub file_mounts: Vec<PathBuf>,
    pub writable: Vec<PathBuf>,
    pub private: Vec<(PathBuf, u32)>,
    pub run_links: Vec<(PathBuf, PathBuf)>,
    /// For an ordinary user: where else the kernel shows the host's processes and devices, as in a root directory of somebody's.
    pub kernel_views: Vec<PathBuf>,
}

/// What to look for.
#[derive(Clone, Debug)]
pub struct Scope<'a> {
    pub as_root: bool,
    pub home: &'a Path,
    pub project: &'a Path,
    pub runtime_dir: Option<&'a Path>,
    /// Trees the user's configuration names.
    pub extra_writable: &'a [PathBuf],
}

/// Directories whose children commonly are handed to users.
const PARENTS_OF_WRITABLE: [&str; 5] = ["/", "/srv", "/opt", "/mnt", "/media"];
const OFTEN_WRITABLE: [&str; 2] = ["/var/tmp", "/usr/local"];

pub fn take(scope: &Scope<'_>) -> Result<Survey, PathError> {
    let table = Path::new("/proc/self/mountinfo");
    let text = fs::read(table).map_err(on("read", table))?;
    let mounts = mountinfo::parse(&text).map_err(|e| on("understand", table)(std::io::Error::other(e)))?;
    let real = || mounts.iter().filter(|m| !m.is_pseudo() && m.mount_point != Path::new("/"));
    let file_mounts = real().filter(|m| !m.mount_point.is_dir()).map(|m| m.mount_point.clone()).collect();
    let writable = if scope.as_root { Vec::new() } else { writable_trees(scope, real().map(|m| m.mount_point.clone())) };
    let kernel_views = if scope.as_root { Vec::new() } else { kernel_views(&mounts) };
    Ok(Survey {
        kernel_views,
        file_mounts,
        writable,
        private: private_places(scope.runtime_dir),
        run_links: links_out_of_run(),
        mounts,
    })
}

/// The subdirectories of a directory, without following links. Unreadable ones have none to offer.
#[must_use]
pub fn subdirectories(directory: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(directory) else { return Vec::new() };
    let mut paths: Vec<PathBuf> =
        entries.filter_map(Result::ok).filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path()).collect();
    paths.sort();
    paths
}

fn writable_trees(scope: &Scope<'_>, mount_points: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let mut candidates = vec![scope.home.to_owned(), scope.project.to_owned()];
    candidates.extend(scope.extra_writable.iter().cloned());
    candidates.extend(OFTEN_WRITABLE.iter().map(PathBuf::from));
    candidates.extend(PARENTS_OF_WRITABLE.iter().flat_map(|p| subdirectories(Path::new(p))));
    candidates.extend(mount_points);
    candidates.sort();
    candidates.dedup();
    candidates.retain(|path| accessat(CWD, path, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS).is_ok() && path.is_dir());
    candidates
}

/// Root's sandboxes do not show them anyway.
fn kernel_views(mounts: &[Mount]) -> Vec<PathBuf> {
    let is_one = |m: &&Mount| matches!(m.fs_type.as_str(), "proc" | "sysfs" | "devtmpfs" | "cgroup" | "cgroup2");
    let elsewhere = mounts.iter().filter(is_one).filter(|m| !MADE_ANEW.iter().any(|p| m.mount_point.starts_with(p)));
    // What the user cannot reach need not be hidden, and could not be.
    elsewhere.map(|m| m.mount_point.clone()).filter(|path| path.is_dir()).collect()
}

fn private_places(runtime_dir: Option<&Path>) -> Vec<(PathBuf, u32)> {
    let mut places = Vec::new();
    for (path, mode) in [("/tmp", 0o1777), ("/run", 0o755), ("/var/run", 0o755)] {
        // `/var/run` is a link to `/run` nearly everywhere; where it is not, its sockets must go as well.
        if let Ok(real) = fs::canonicalize(path)
            && !places.iter().any(|(p, _)| *p == real)
        {
            places.push((real, mode));
        }
    }
    if let Some(directory) = runtime_dir.filter(|d| d.is_dir())
        && !places.iter().any(|(p, _)| directory.starts_with(p))
    {
        places.push((directory.to_owned(), 0o700));
    }
    places
}

/// Links such as NixOS's `/run/current-system`, without which nothing there would run.
fn links_out_of_run() -> Vec<(PathBuf, PathBuf)> {
    let Ok(entries) = fs::read_dir("/run") else { return Vec::new() };
    entries
        .filter_map(Result::ok)
        .filter(|e| e.file_type().is_ok_and(|t| t.is_symlink()))
        .filter_map(|e| Some((e.path(), fs::read_link(e.path()).ok()?)))
        .filter(|(_, target)| target.is_absolute() && !target.starts_with("/run") && !target.starts_with("/var/run"))
        .collect()
}
