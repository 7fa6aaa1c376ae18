//! Commits that a sandbox made itself: applied along with git's own files, they would move the same branch as a commit of ours.

use std::path::{Path, PathBuf};

use whatif_apply::Plan;
use whatif_types::remedy;
use whatif_types::remedy::Choice;

use super::entries::is_directory;
use crate::EngineError;
use crate::git::{Git, GitError};

/// What says where branches lead, and what is staged.
const DECISIVE: [&str; 5] = ["HEAD", "index", "packed-refs", "refs", "reftable"];

pub(super) fn refuse(plan: &Plan, git: &Git) -> Result<(), EngineError> {
    let directories: Vec<PathBuf> = ["--absolute-git-dir", "--git-common-dir"]
        .iter()
        .map(|which| Ok(git.root.join(git.read(&["rev-parse", which])?)))
        .collect::<Result<_, EngineError>>()?;
    let is_decisive = |path: &Path| {
        let within = directories.iter().filter_map(|directory| path.strip_prefix(directory).ok());
        within.filter_map(|path| path.iter().next()).any(|first| DECISIVE.iter().any(|name| first == *name))
    };
    let files = plan.operations.iter().filter(|operation| !is_directory(operation)).map(|o| o.absolute(&plan.roots));
    match files.into_iter().find(|path| is_decisive(path)) {
        None => Ok(()),
        Some(path) => Err(GitError::Failed {
            action: "commit",
            message: format!("the sandbox changed {} itself, and that would be applied along with the commit", path.display()),
            remedy: remedy![
                "nothing was applied. Leave git's own files out (",
                Choice::Exclude(".git".into()),
                "), or apply the sandbox's commits without ",
                Choice::Commit
            ],
        }
        .into()),
    }
}
