//! What is mounted beneath a directory.

use std::fs;
use std::path::{Path, PathBuf};

use whatif_types::mountinfo::{self, Mount};

use crate::EngineError;

const TABLE: &str = "/proc/self/mountinfo";

/// The mounts beneath a directory, in the order in which they were made.
pub(crate) fn mounts_in(directory: &Path) -> Result<Vec<Mount>, EngineError> {
    let failed = |path: &Path| {
        let path: PathBuf = path.to_owned();
        move |e| EngineError::io("examine", &path, e)
    };
    let directory = fs::canonicalize(directory).map_err(failed(directory))?;
    let table = fs::read(TABLE).map_err(failed(Path::new(TABLE)))?;
    let mounts = mountinfo::parse(&table).map_err(|e| failed(Path::new(TABLE))(std::io::Error::other(e)))?;
    Ok(mounts.into_iter().filter(|m| m.mount_point.starts_with(&directory) && m.mount_point != directory).collect())
}
