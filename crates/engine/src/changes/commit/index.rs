//! Git's index, locked as git itself does it: nobody else writes it while there is an `index.lock`.
//!
//! Ours is a second name of a file that is called after the apply, so that after a crash it can be told from that of a git that is
//! alive. Everything is done by programs with the ids of the repository's owner, since `.git` may lead anywhere.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use whatif_sys::absence;

use super::note::Note;
use crate::EngineError;
use crate::git::{Git, GitError, InIndex};

/// Of a lock and the file that is called after the apply.
const IS_OURS: &str =
    "[ \"$1\" -ef \"$2\" ] || { [ -f \"$1\" ] && [ -s \"$2\" ] && [ \"$(cat -- \"$1\")\" = \"$(cat -- \"$2\")\" ]; }";

#[derive(Debug)]
pub(super) struct Index {
    directory: PathBuf,
    index: PathBuf,
    lock: PathBuf,
    /// The other name of the lock.
    token: PathBuf,
    /// The index as it will be.
    staged: PathBuf,
}

impl Index {
    pub(super) fn of(note: &Note) -> Self {
        let within = |name: &str| note.directory.join(name);
        Self {
            directory: note.directory.clone(),
            index: within("index"),
            lock: within("index.lock"),
            token: within(&format!("whatif-{}.held", note.id)),
            staged: within(&format!("whatif-{}.index", note.id)),
        }
    }

    /// Where there are no hard links the content tells; a crash just between making and writing the lock leaves one that is nobody's.
    pub(super) fn lock(&self, git: &Git) -> Result<(), EngineError> {
        let script =
            "set -C; echo \"$2\" > \"$2\"; ln -- \"$2\" \"$1\" 2>/dev/null || { [ ! -e \"$1\" ]; cat -- \"$2\" > \"$1\"; }";
        let Err(error) = git.script(script, &[&self.lock, &self.token]) else { return Ok(()) };
        // A full disk keeps a lock from being made, too.
        if !exists(&self.lock)? || self.is_ours(git)? {
            return Err(error);
        }
        Err(GitError::Failed {
            action: "commit",
            message: format!("git's index is locked: {}", self.lock.display()),
            remedy: "nothing was applied. Another git command is at work there, or one was killed: remove that file then".into(),
        }
        .into())
    }

    /// Writes the index as it will be, next to it: with what was committed, and otherwise as it is.
    pub(super) fn stage(
        &self,
        git: &Git,
        commit: &str,
        parent: Option<&str>,
        otherwise: &HashMap<PathBuf, InIndex>,
    ) -> Result<(), EngineError> {
        git.script("if [ -e \"$1\" ]; then cp -p -- \"$1\" \"$2\"; fi", &[&self.index, &self.staged])?;
        git.update_index(&self.staged, commit, parent, otherwise)?;
        // By the time of its index git knows which files it must look at again: those that were written no earlier. Under a later
        // time, an edit of the same second and size would be taken for what is staged.
        git.script("if [ -e \"$1\" ]; then touch -r \"$1\" -- \"$2\"; fi", &[&self.index, &self.staged])?;
        git.script("sync -- \"$1\" || sync", &[&self.directory])
    }

    /// Puts the new index in place; nothing to do if it is. False: somebody removed our lock, and the index may be another one by now.
    pub(super) fn put(&self, git: &Git) -> Result<bool, EngineError> {
        if !self.is_staged()? {
            return Ok(true);
        }
        if !self.is_ours(git)? {
            return Ok(false);
        }
        let put = git.script("mv -f -- \"$1\" \"$2\"; sync -- \"$3\" || sync", &[&self.staged, &self.index, &self.directory]);
        // Killed when it was done already?
        if put.is_err() && !self.is_staged()? { Ok(true) } else { put.map(|()| true) }
    }

    fn is_staged(&self) -> Result<bool, EngineError> {
        exists(&self.staged)
    }

    fn is_ours(&self, git: &Git) -> Result<bool, EngineError> {
        git.test(IS_OURS, &[&self.lock, &self.token])
    }

    /// Gives the lock up and removes everything of ours.
    pub(super) fn release(&self, git: &Git) -> Result<(), EngineError> {
        if !exists(&self.token)? && !self.is_staged()? {
            return Ok(());
        }
        let script = format!("rm -f -- \"$3\" \"$3.lock\"; if {IS_OURS}; then rm -f -- \"$1\"; fi; rm -f -- \"$2\"");
        git.script(&script, &[&self.lock, &self.token, &self.staged])
    }
}

fn exists(path: &Path) -> Result<bool, EngineError> {
    absence::exists(path).map_err(|e| EngineError::io("examine", path, e))
}
