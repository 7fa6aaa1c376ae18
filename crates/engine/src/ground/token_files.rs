//! The files in which daemons keep the tokens of their API. They are hidden from every sandbox, wherever they are: whoever reads one
//! could approve its own changes.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use whatif_layers::StateDir;
use whatif_sys::absence::OrAbsent;

use crate::{Caller, EngineError};

/// Their paths, one a line.
const FILE: &str = "token-files";

/// Where a daemon of a state directory keeps its token unless it is told otherwise. No sandbox sees that directory.
#[must_use]
pub fn usual(state_dir: &Path) -> PathBuf {
    state_dir.join("token")
}

/// Hides a file from every sandbox that starts from now on, whoever starts it. Its directory exists; the file need not yet.
pub fn hide(state_dir: &Path, path: &Path) -> Result<(), EngineError> {
    let state = StateDir::open(state_dir)?;
    let failed = |source| EngineError::io("hide from sandboxes", path, source);
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(failed(io::ErrorKind::InvalidInput.into()));
    };
    // The mask is made at the place where it really lies.
    let real = fs::canonicalize(directory).map_err(failed)?.join(name);
    let line = real.to_str().filter(|line| !line.contains('\n'));
    let line = line.ok_or_else(|| failed(io::Error::new(io::ErrorKind::InvalidInput, "its path is not plain text")))?;
    let own = fs::canonicalize(state.root()).map_err(|e| EngineError::io("examine", state.root(), e))?;
    if real.starts_with(own) || listed(&state)?.iter().any(|known| known == line) {
        return Ok(());
    }
    let file = state.root().join(FILE);
    let append = || {
        let mut list = File::options().append(true).create(true).mode(0o600).open(&file)?;
        list.write_all(format!("{line}\n").as_bytes())?;
        list.sync_all()
    };
    append().map_err(|e| EngineError::io("write", &file, e))
}

/// The same caller, whose sandboxes do not see them.
pub(crate) fn masked_for(mut caller: Caller, state: &StateDir) -> Result<Caller, EngineError> {
    caller.config.files.own_credentials = listed(state)?;
    Ok(caller)
}

fn listed(state: &StateDir) -> Result<Vec<String>, EngineError> {
    let file = state.root().join(FILE);
    let text = fs::read_to_string(&file).or_absent().map_err(|e| EngineError::io("read", &file, e))?;
    Ok(text.unwrap_or_default().lines().map(str::to_owned).collect())
}
