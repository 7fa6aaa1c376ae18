//! The branch that a commit goes to. That it leads to the commit is what decides about the whole apply.

use whatif_types::Remedy;

use super::note::Note;
use crate::EngineError;
use crate::git::{Git, GitError};

/// What is checked out: a branch, or `HEAD` itself.
pub(super) fn current(git: &Git) -> Result<String, EngineError> {
    Ok(git.read_if_there(&["symbolic-ref", "-q", "HEAD"])?.unwrap_or_else(|| "HEAD".to_owned()))
}

/// What a reference leads to.
pub(super) fn tip(git: &Git, reference: &str) -> Result<Option<String>, EngineError> {
    git.read_if_there(&["rev-parse", "-q", "--verify", &format!("{reference}^{{commit}}")])
}

/// Moves the branch from the parent to the commit; on the disk when this returns.
pub(super) fn advance(git: &Git, note: &Note, commit: &str) -> Result<(), EngineError> {
    let now = current(git)?;
    if now != note.reference {
        return Err(GitError::Failed {
            action: "commit",
            message: format!("{now} is checked out now, no longer {}", note.reference),
            remedy: Remedy::default(),
        }
        .into());
    }
    let none = "0".repeat(commit.len());
    git.read(&["update-ref", "-m", "whatif apply", &note.reference, commit, note.parent.as_deref().unwrap_or(&none)])?;
    let around = note.branch.parent().unwrap_or(&note.directory);
    git.script("for d; do if [ -d \"$d\" ]; then sync -- \"$d\" || sync; fi; done", &[around, &note.directory])
}

/// Moves it back, if it still leads to the commit.
pub(super) fn take_back(git: &Git, note: &Note, commit: &str) -> Result<(), EngineError> {
    let back = match &note.parent {
        Some(parent) => git.read(&["update-ref", "-m", "whatif apply: taken back", &note.reference, parent, commit]),
        None => git.read(&["update-ref", "-d", &note.reference, commit]),
    };
    back.map(|_| ())
}

/// Whether the branch has the commit, whatever came on top of it since.
pub(super) fn has(git: &Git, note: &Note) -> Result<bool, EngineError> {
    let (Some(commit), Some(tip)) = (&note.commit, tip(git, &note.reference)?) else { return Ok(false) };
    // Objects that a power cut took never were on a branch.
    let is_there = || git.read_if_there(&["rev-parse", "-q", "--verify", &format!("{commit}^{{commit}}")]);
    Ok(tip == *commit || is_there()?.is_some() && git.read_if_there(&["merge-base", "--is-ancestor", commit, &tip])?.is_some())
}
