//! Git's index, locked as git itself does it: `index.lock` is made by whoever gets it, filled, and renamed.
//!
//! Everything is done by programs with the ids of the repository's owner, since `.git` may lead anywhere.

use std::collections::HashMap;
use std::path::PathBuf;

use crate::EngineError;
use crate::git::{Git, InIndex};

/// Given up when it is dropped.
#[derive(Debug)]
pub(super) struct IndexLock {
    git: Git,
    index: PathBuf,
    lock: PathBuf,
    is_ours: bool,
}

impl IndexLock {
    pub(super) fn take(git: &Git) -> Result<Self, EngineError> {
        let directory = PathBuf::from(git.read(&["rev-parse", "--absolute-git-dir"])?);
        let (index, lock) = (directory.join("index"), directory.join("index.lock"));
        let taken = git.script("set -C; : > \"$1\"", &[&lock]);
        taken.map_err(|_| EngineError::Git {
            action: "commit",
            message: format!("git's index is locked: {}", lock.display()),
            hint: "nothing was applied. Another git command is at work there, or one was killed: remove that file then".to_owned(),
        })?;
        Ok(Self { git: git.clone(), index, lock, is_ours: true })
    }

    /// Writes the index as it will be: with what was committed, and otherwise as it is.
    pub(super) fn fill(
        &self,
        git: &Git,
        commit: &str,
        parent: Option<&str>,
        otherwise: &HashMap<PathBuf, InIndex>,
    ) -> Result<(), EngineError> {
        let new = self.lock.with_extension("whatif");
        git.script("rm -f \"$2\"; if [ -e \"$1\" ]; then cp -p -- \"$1\" \"$2\"; fi", &[&self.index, &new])?;
        let written = git.update_index(&new, commit, parent, otherwise);
        let filled = written.and_then(|()| git.script("cat -- \"$1\" > \"$2\"", &[&new, &self.lock]));
        let _ = git.script("rm -f -- \"$1\"", &[&new]);
        filled
    }

    pub(super) fn commit(mut self, git: &Git) -> Result<(), EngineError> {
        git.script("mv -f -- \"$1\" \"$2\"", &[&self.lock, &self.index])?;
        self.is_ours = false;
        Ok(())
    }
}

impl Drop for IndexLock {
    fn drop(&mut self) {
        if self.is_ours {
            let _ = self.git.script("rm -f -- \"$1\"", &[&self.lock]);
        }
    }
}
