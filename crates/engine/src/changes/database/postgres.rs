//! Directories that a server of PostgreSQL works on. All files in one belong together: some of reality's beside some of a sandbox's
//! are no database.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use whatif_diff::{Base, Change, content};
use whatif_sys::absence::{self, MeansAbsent, OrAbsent};

use crate::EngineError;
use crate::merge::damage::{MIXED, RUNS};

/// By this a directory of a server is recognized.
const CONTROL: &str = "global/pg_control";

/// Some of these change with whatever a server does.
const DATA: [&str; 5] = ["base", "global", "pg_wal", "pg_xact", "pg_multixact"];

/// A server's file has a few lines, the first of which is its number.
const LONGEST: u64 = 64 << 10;

#[derive(Default)]
pub(super) struct Clusters {
    /// A server of reality's runs on them.
    running: HashSet<PathBuf>,
    /// One ran on them since the sandbox's started from them.
    moved: HashSet<PathBuf>,
}

impl Clusters {
    /// Those that the sandbox changed the data of.
    pub(super) fn of(changes: &[Change]) -> Result<Self, EngineError> {
        let mut all: HashMap<&Path, bool> = HashMap::new();
        for change in changes {
            let is_data = |part: &&Path| part.file_name().is_some_and(|name| DATA.iter().any(|data| name == *data));
            let Some(cluster) = change.path.ancestors().skip(1).find(is_data).and_then(Path::parent) else { continue };
            *all.entry(cluster).or_default() |= change.base != Base::Reality;
        }
        let mut clusters = Self::default();
        for (directory, is_moved) in all {
            let failed = |e| EngineError::io("look at", directory, e);
            // Other directories are called like these, too.
            if !absence::is_file(&directory.join(CONTROL)).map_err(failed)? {
                continue;
            }
            if is_running(directory).map_err(failed)? {
                clusters.running.insert(directory.to_owned());
            }
            if is_moved {
                clusters.moved.insert(directory.to_owned());
            }
        }
        Ok(clusters)
    }

    /// Why nothing of the sandbox's may be put at a path.
    pub(super) fn damage(&self, path: &Path) -> Option<&'static str> {
        let is_in = |clusters: &HashSet<PathBuf>, depth| {
            !clusters.is_empty() && path.ancestors().skip(depth).any(|directory| clusters.contains(directory))
        };
        if is_in(&self.running, 1) {
            return Some(RUNS);
        }
        // What lies in the directory itself is configuration.
        is_in(&self.moved, 2).then_some(MIXED)
    }
}

/// A server that was killed leaves its file. Its number may be another process's by now, which is called otherwise or stands elsewhere.
fn is_running(directory: &Path) -> io::Result<bool> {
    let Some(text) = content::read_up_to(&directory.join("postmaster.pid"), LONGEST).or_absent()? else { return Ok(false) };
    let Some(pid) = String::from_utf8_lossy(&text).lines().next().and_then(|line| line.trim().parse::<u32>().ok()) else {
        return Ok(false);
    };
    // It may be the number that a server inside has there.
    match fs::read(format!("/proc/{pid}/comm")) {
        Ok(called) if called.starts_with(b"post") => {}
        Err(error) if !error.means_absent() && Errno::from_io_error(&error) != Some(Errno::SRCH) => return Err(error),
        _ => return Ok(false),
    }
    match fs::read_link(format!("/proc/{pid}/cwd")) {
        Ok(stands) => Ok(fs::canonicalize(directory)? == stands),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        // Another user's: it is there.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(true),
        Err(error) => Err(error),
    }
}
