//! Operations of git that are not finished: a commit in the middle of one would become part of it.

use std::path::{Path, PathBuf};

use whatif_sys::absence;
use whatif_types::remedy;
use whatif_types::remedy::Choice;

use crate::EngineError;
use crate::git::{Git, GitError};

/// What git keeps while one is under way, in its directory or as a reference.
const MARKS: [(&str, &str); 6] = [
    ("MERGE_HEAD", "merge"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("rebase-merge", "rebase"),
    ("rebase-apply", "rebase"),
    ("sequencer", "cherry-pick"),
];

/// Git itself commits no single files during a merge, and what a rebase finds on top of its own commits it takes for part of them.
pub(super) fn refuse(git: &Git) -> Result<(), EngineError> {
    let directory = PathBuf::from(git.read(&["rev-parse", "--absolute-git-dir"])?);
    for (mark, operation) in MARKS {
        if is_there(git, &directory, mark)? {
            return Err(GitError::Failed {
                action: "commit",
                message: format!("a {operation} is in progress in {}", git.root.display()),
                remedy: remedy![
                    format!(
                        "nothing was applied. Finish it first (git {operation} --continue) or give it up (git {operation} --abort)"
                    ),
                    ", or apply without ",
                    Choice::Commit
                ],
            }
            .into());
        }
    }
    Ok(())
}

fn is_there(git: &Git, directory: &Path, mark: &str) -> Result<bool, EngineError> {
    let path = directory.join(mark);
    if absence::exists(&path).map_err(|e| EngineError::io("examine", &path, e))? {
        return Ok(true);
    }
    // Git may keep references elsewhere than in files.
    Ok(mark.ends_with("_HEAD") && git.read(&["rev-parse", "-q", "--verify", mark]).is_ok())
}
