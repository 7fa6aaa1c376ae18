//! A commit that is made along with an apply.

use std::path::{Path, PathBuf};

use whatif_apply::Verdict;
use whatif_layers::remove;
use whatif_layers::state_dir::SandboxLock;
use whatif_types::Remedy;
use whatif_types::explain::whole_message;

use super::entries::Entries;
use super::index::Index;
use super::note::Note;
use super::objects::Objects;
use super::{CommitOptions, Committed, reference, stale_locks};
use crate::EngineError;
use crate::changes::ChangesError;
use crate::changes::apply::ApplyError;
use crate::git::{Git, GitError};

/// Holds the lock of git's index from before the apply until the commit stands or never will.
#[derive(Debug)]
pub(crate) struct Coming {
    pub(super) git: Git,
    pub(super) note: Note,
    /// The directory of the apply, with the note in it.
    apply: PathBuf,
    _lock: SandboxLock,
    hooks: bool,
    apart: Vec<PathBuf>,
    own: Vec<PathBuf>,
    already: Vec<PathBuf>,
    /// Why there is none.
    failed: Option<EngineError>,
    /// The transaction has it, and whoever ends that ends this.
    is_handed_over: bool,
}

impl Coming {
    pub(super) fn new(git: Git, note: Note, apply: PathBuf, lock: SandboxLock) -> Self {
        let (apart, own, already) = (Vec::new(), Vec::new(), Vec::new());
        Self { git, note, apply, _lock: lock, hooks: false, apart, own, already, failed: None, is_handed_over: false }
    }

    /// A git whose objects are the repository's only once the commit is to be made.
    pub(super) fn set_objects_apart(&self) -> Result<Git, EngineError> {
        Objects::of(&self.note).map_or_else(|| Ok(self.git.clone()), |objects| objects.set_apart(&self.git))
    }

    /// The commit is written. From here on recovery knows what to look for.
    pub(super) fn expect(&mut self, parent: Option<String>, commit: String, options: &CommitOptions) -> Result<(), EngineError> {
        self.hooks = options.hooks;
        self.note.parent = parent;
        self.note.commit = Some(commit);
        self.note.write(&self.apply)
    }

    pub(super) fn set_apart(&mut self, entries: Entries) {
        (self.apart, self.own, self.already) = (entries.apart, entries.own, entries.already);
    }

    /// Where the transaction is to write its journal.
    pub(crate) fn hand_over(&mut self) -> &Path {
        self.is_handed_over = true;
        &self.apply
    }

    /// All files are in place. What is said now about the branch holds for them, too.
    pub(crate) fn decide(&mut self) -> Verdict {
        match self.make() {
            Ok(()) => Verdict::Forward,
            Err(Undecided::No(error)) => {
                let why = whole_message(&error);
                self.failed = Some(error);
                Verdict::Back { why }
            }
            Err(Undecided::Unknown(error)) => Verdict::Unknown { why: whole_message(&error) },
        }
    }

    fn make(&self) -> Result<(), Undecided> {
        let index = Index::of(&self.note);
        if let Some(commit) = &self.note.commit {
            if self.hooks {
                self.git.run_hook("pre-commit").map_err(Undecided::No)?;
            }
            if let Some(objects) = Objects::of(&self.note) {
                objects.admit(&self.git).map_err(Undecided::No)?;
            }
            self.advance(commit)?;
            if let Err(error) = put(&index, &self.git) {
                return Err(self.go_back(commit, error));
            }
        }
        // Killed in the middle of it? Then once more; recovery is the third.
        let released = index.release(&self.git).or_else(|_| index.release(&self.git));
        released.map_err(Undecided::Unknown)
    }

    fn advance(&self, commit: &str) -> Result<(), Undecided> {
        let advanced = reference::advance(&self.git, &self.note, commit);
        stale_locks::remove(&self.git, &self.note).map_err(Undecided::Unknown)?;
        let Err(error) = advanced else { return Ok(()) };
        // Git may have been killed before or after the branch moved.
        let has_moved = reference::has(&self.git, &self.note).map_err(Undecided::Unknown)?;
        if has_moved { Ok(()) } else { Err(Undecided::No(error)) }
    }

    fn go_back(&self, commit: &str, error: EngineError) -> Undecided {
        let back = reference::take_back(&self.git, &self.note, commit);
        match (back, reference::has(&self.git, &self.note)) {
            (_, Ok(false)) => Undecided::No(error),
            (Err(error), _) | (_, Err(error)) => Undecided::Unknown(error),
            (Ok(()), Ok(true)) => Undecided::Unknown(error),
        }
    }

    /// Takes everything of ours out of git's directory once the files are as they were.
    pub(crate) fn release(&self) -> Result<(), EngineError> {
        let index = Index::of(&self.note);
        Objects::of(&self.note).map_or(Ok(()), |objects| objects.remove(&self.git))?;
        index.release(&self.git).or_else(|_| index.release(&self.git))
    }

    /// Says why there is no commit, if that is why nothing was applied.
    pub(super) fn explain(&mut self, error: EngineError) -> EngineError {
        if !matches!(error, EngineError::Changes(ChangesError::Apply(ApplyError::Refused { .. }))) {
            return error;
        }
        let remedy = Remedy::from("the apply was undone: branch, index and files are as they were");
        match self.failed.take() {
            None => error,
            Some(EngineError::Git(GitError::Failed { action, message, .. })) => GitError::Failed { action, message, remedy }.into(),
            Some(other) => GitError::Failed { action: "commit", message: whole_message(&other), remedy }.into(),
        }
    }

    pub(super) fn committed(&mut self) -> Committed {
        // It is committed, whatever comes now.
        if self.hooks {
            let _ = self.git.run_hook("post-commit");
        }
        let [apart, own, already] = [&mut self.apart, &mut self.own, &mut self.already].map(std::mem::take);
        Committed { id: self.note.commit.clone(), apart, own, already }
    }
}

impl Drop for Coming {
    /// It did not come to an apply. What cannot be cleaned up now is left to recovery.
    fn drop(&mut self) {
        if !self.is_handed_over && self.release().is_ok() {
            let _ = remove::tree(&self.apply);
        }
    }
}

/// Why a commit does not stand.
enum Undecided {
    /// The branch is as it was.
    No(EngineError),
    /// Only a later look can tell.
    Unknown(EngineError),
}

fn put(index: &Index, git: &Git) -> Result<(), EngineError> {
    if index.put(git)? {
        return Ok(());
    }
    Err(GitError::Failed {
        action: "commit",
        message: "the lock of git's index was removed while it was needed".to_owned(),
        remedy: Remedy::default(),
    }
    .into())
}
