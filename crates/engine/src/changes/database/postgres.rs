//! Directories that a server of PostgreSQL runs on in reality.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use whatif_diff::{Change, content};
use whatif_sys::absence::{MeansAbsent, OrAbsent};

use crate::EngineError;

pub(super) const RUNS: &str =
    "a PostgreSQL server runs on this directory in reality: stop it first (the version of the sandbox would damage it)";

/// What every server writes to when it starts.
const CONTROL: &str = "global/pg_control";

/// A server's file has a few lines, the first of which is its number.
const LONGEST: u64 = 64 << 10;

pub(super) struct Clusters(HashSet<PathBuf>);

impl Clusters {
    /// Among those that the sandbox ran a server on.
    pub(super) fn running(changes: &[Change]) -> Result<Self, EngineError> {
        let directories = changes.iter().filter(|c| c.path.ends_with(CONTROL)).filter_map(|c| c.path.ancestors().nth(2));
        let mut running = HashSet::new();
        for directory in directories {
            if is_running(directory).map_err(|e| EngineError::io("look at", directory, e))? {
                running.insert(directory.to_owned());
            }
        }
        Ok(Self(running))
    }

    pub(super) fn hold(&self, path: &Path) -> bool {
        !self.0.is_empty() && path.ancestors().skip(1).any(|directory| self.0.contains(directory))
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
