//! Commits whose apply was interrupted.

use std::path::Path;

use whatif_apply::Verdict;
use whatif_types::explain::whole_message;

use super::index::Index;
use super::note::Note;
use super::objects::Objects;
use super::{reference, stale_locks};
use crate::EngineError;
use crate::changes::Changes;
use crate::git::Git;

impl Changes {
    /// Whether an interrupted apply with a commit is finished or taken back. The caller holds its lock, so nothing of it is alive.
    pub(crate) fn decide_unfinished(&self, apply: &Path, notes: &mut Vec<String>) -> Verdict {
        let decided = Note::read(apply).and_then(|note| match note {
            Some(note) => self.finish_commit(&note, notes),
            None => Err(EngineError::io("read", apply.join("commit.json"), std::io::ErrorKind::NotFound.into())),
        });
        match decided {
            Ok(true) => Verdict::Forward,
            Ok(false) => Verdict::Back { why: "the branch does not have the commit".to_owned() },
            Err(error) => Verdict::Unknown { why: whole_message(&error) },
        }
    }

    /// Finishes a commit that the branch has. False if it does not.
    fn finish_commit(&self, note: &Note, notes: &mut Vec<String>) -> Result<bool, EngineError> {
        let Some(git) = self.repository_of(note)? else { return Ok(false) };
        if note.commit.is_some() && !reference::has(&git, note)? {
            return Ok(false);
        }
        if !Index::of(note).put(&git)? {
            notes.push(format!(
                "an interrupted apply is committed, but git's index does not have it, because its lock was removed: see 'git -C {} status'",
                note.root.display()
            ));
        }
        self.release_commit(note)?;
        Ok(true)
    }

    /// Takes everything of a commit out of git's directory that an interrupted apply left there.
    pub(crate) fn release_commit_of(&self, apply: &Path) -> Result<(), EngineError> {
        Note::read(apply)?.map_or(Ok(()), |note| self.release_commit(&note))
    }

    fn release_commit(&self, note: &Note) -> Result<(), EngineError> {
        let Some(git) = self.repository_of(note)? else { return Ok(()) };
        stale_locks::remove(&git, note)?;
        Objects::of(note).map_or(Ok(()), |objects| objects.remove(&git))?;
        Index::of(note).release(&git)
    }

    /// `None` if it is not there any more.
    fn repository_of(&self, note: &Note) -> Result<Option<Git>, EngineError> {
        let found = Git::around(&note.root, &self.ground.caller.home, self.ground.caller.is_root())?;
        Ok(found.filter(|git| git.root == note.root))
    }
}
