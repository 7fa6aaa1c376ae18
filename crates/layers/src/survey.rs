//! Looks at reality: what is mounted, what the user can write, what must be carried into a private `/run`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::io::Errno;
use whatif_sys::absence::{self, MeansAbsent, OrAbsent};
use whatif_sys::kernel_table;
use whatif_types::mountinfo::{self, Mount};
use whatif_types::paths;

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

/// What is mounted now.
pub fn mounts() -> Result<Vec<Mount>, PathError> {
    let table = Path::new("/proc/self/mountinfo");
    let text = kernel_table::read(table).map_err(on("read", table))?;
    mountinfo::parse(&text).map_err(|e| on("understand", table)(std::io::Error::other(e)))
}

pub fn take(scope: &Scope<'_>) -> Result<Survey, PathError> {
    let mounts = mounts()?;
    let real = || mounts.iter().filter(|m| !m.is_pseudo() && m.mount_point != Path::new("/"));
    let mut file_mounts = Vec::new();
    for mount in real() {
        if !is_directory(&mount.mount_point)? {
            file_mounts.push(mount.mount_point.clone());
        }
    }
    let writable = if scope.as_root { Vec::new() } else { writable_trees(scope, real().map(|m| m.mount_point.clone()))? };
    let kernel_views = if scope.as_root { Vec::new() } else { kernel_views(&mounts)? };
    Ok(Survey {
        kernel_views,
        file_mounts,
        writable,
        private: private_places(scope.runtime_dir)?,
        run_links: links_out_of_run()?,
        mounts,
    })
}

/// The subdirectories of a directory, without following links. One that is closed to this user has none to offer.
pub fn subdirectories(directory: &Path) -> Result<Vec<PathBuf>, PathError> {
    let mut found = Vec::new();
    for entry in entries(directory)? {
        match entry.file_type().or_absent() {
            Ok(kind) if kind.is_some_and(|t| t.is_dir()) => found.push(entry.path()),
            Ok(_) => {}
            Err(error) => return Err(on("examine", &entry.path())(error)),
        }
    }
    paths::sort(&mut found);
    Ok(found)
}

/// Whether this user can do nothing at all in a directory: nobody's changes can be there.
#[must_use]
pub fn is_closed(directory: &Path) -> bool {
    matches!(accessat(CWD, directory, Access::EXEC_OK, AtFlags::EACCESS), Err(Errno::ACCESS))
}

/// What is in a directory that this user can list; nothing if there is none.
fn entries(directory: &Path) -> Result<Vec<fs::DirEntry>, PathError> {
    match fs::read_dir(directory).and_then(Iterator::collect) {
        Err(error) if is_out_of_reach(&error) => Ok(Vec::new()),
        other => other.map_err(on("list", directory)),
    }
}

/// Whether a directory is there, as far as this user can reach.
fn is_directory(path: &Path) -> Result<bool, PathError> {
    match absence::is_dir(path) {
        Err(error) if is_out_of_reach(&error) => Ok(false),
        other => other.map_err(on("examine", path)),
    }
}

fn is_out_of_reach(error: &io::Error) -> bool {
    error.means_absent() || error.kind() == io::ErrorKind::PermissionDenied
}

fn can_write(path: &Path) -> Result<bool, PathError> {
    match accessat(CWD, path, Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS) {
        Ok(()) => is_directory(path),
        Err(Errno::ROFS | Errno::LOOP | Errno::PERM) => Ok(false),
        Err(errno) if is_out_of_reach(&errno.into()) => Ok(false),
        Err(errno) => Err(on("examine", path)(errno)),
    }
}

fn writable_trees(scope: &Scope<'_>, mount_points: impl Iterator<Item = PathBuf>) -> Result<Vec<PathBuf>, PathError> {
    let mut candidates = vec![scope.home.to_owned(), scope.project.to_owned()];
    candidates.extend(scope.extra_writable.iter().cloned());
    candidates.extend(OFTEN_WRITABLE.iter().map(PathBuf::from));
    for parent in PARENTS_OF_WRITABLE {
        candidates.extend(subdirectories(Path::new(parent))?);
    }
    candidates.extend(mount_points);
    paths::sort(&mut candidates);
    let mut writable = Vec::new();
    for path in candidates {
        if can_write(&path)? {
            writable.push(path);
        }
    }
    Ok(writable)
}

/// Root's sandboxes do not show them anyway.
fn kernel_views(mounts: &[Mount]) -> Result<Vec<PathBuf>, PathError> {
    let is_one = |m: &&Mount| matches!(m.fs_type.as_str(), "proc" | "sysfs" | "devtmpfs" | "cgroup" | "cgroup2");
    let elsewhere = mounts.iter().filter(is_one).filter(|m| !MADE_ANEW.iter().any(|p| m.mount_point.starts_with(p)));
    // What the user cannot reach need not be hidden, and could not be.
    let mut views = Vec::new();
    for mount in elsewhere {
        if is_directory(&mount.mount_point)? {
            views.push(mount.mount_point.clone());
        }
    }
    Ok(views)
}

fn private_places(runtime_dir: Option<&Path>) -> Result<Vec<(PathBuf, u32)>, PathError> {
    let mut places = Vec::new();
    for (path, mode) in [("/tmp", 0o1777), ("/run", 0o755), ("/var/run", 0o755)] {
        // `/var/run` is a link to `/run` nearly everywhere; where it is not, its sockets must go as well.
        if let Some(real) = fs::canonicalize(path).or_absent().map_err(on("resolve", Path::new(path)))?
            && !places.iter().any(|(p, _)| *p == real)
        {
            places.push((real, mode));
        }
    }
    if let Some(directory) = runtime_dir
        && is_directory(directory)?
        && !places.iter().any(|(p, _)| directory.starts_with(p))
    {
        places.push((directory.to_owned(), 0o700));
    }
    Ok(places)
}

/// Links such as NixOS's `/run/current-system`, without which nothing there would run.
fn links_out_of_run() -> Result<Vec<(PathBuf, PathBuf)>, PathError> {
    let mut links = Vec::new();
    for entry in entries(Path::new("/run"))? {
        let path = entry.path();
        let target = match entry.file_type() {
            Ok(kind) if kind.is_symlink() => fs::read_link(&path).or_absent().map_err(on("read", &path))?,
            _ => None,
        };
        let leads_out = |t: &PathBuf| t.is_absolute() && !t.starts_with("/run") && !t.starts_with("/var/run");
        links.extend(target.filter(leads_out).map(|target| (path, target)));
    }
    Ok(links)
}
