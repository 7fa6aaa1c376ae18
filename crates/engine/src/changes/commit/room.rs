//! Whether a commit failed for want of room. Git says so in the user's language, among other things.

use std::path::Path;

use crate::EngineError;
use crate::git::GitError;

/// What a disk has left on which a file could not be written.
const LITTLE: u64 = 1 << 20;

/// Says what helps where the repository's disk is full.
pub(super) fn explain(error: EngineError, repository: &Path) -> EngineError {
    match error {
        EngineError::Git(GitError::Failed { action, message, .. }) if is_full(repository) => {
            let remedy = "nothing was applied, and the disk of the repository is full: make room there and try again".into();
            GitError::Failed { action, message, remedy }.into()
        }
        other => other,
    }
}

fn is_full(place: &Path) -> bool {
    // It is about a remedy only.
    let Ok(stat) = rustix::fs::statvfs(place) else { return false };
    let has_no_inodes = stat.f_files > 0 && stat.f_favail == 0;
    has_no_inodes || stat.f_bavail.saturating_mul(stat.f_frsize) < LITTLE
}
