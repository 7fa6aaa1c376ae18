//! What git has of each file: in the last commit, and staged.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use crate::EngineError;
use crate::git::Git;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub mode: String,
    pub id: String,
}

/// By paths relative to the repository.
#[derive(Debug)]
pub(super) struct Tracked {
    pub head: HashMap<PathBuf, Entry>,
    pub index: HashMap<PathBuf, Entry>,
}

impl Tracked {
    pub(super) fn of(git: &Git) -> Result<Self, EngineError> {
        let by_path = |listed: Vec<(String, String, PathBuf)>| {
            listed.into_iter().map(|(mode, id, path)| (path, Entry { mode, id })).collect::<HashMap<_, _>>()
        };
        Ok(Self { head: by_path(git.committed()?), index: by_path(git.staged()?) })
    }

    pub(super) fn submodules(&self) -> impl Iterator<Item = &Path> {
        let all = self.head.iter().chain(&self.index);
        all.filter(|(_, entry)| entry.mode == "160000").map(|(path, _)| path.as_path())
    }
}

impl Entry {
    pub(super) fn is_link(&self) -> bool {
        self.mode == "120000"
    }

    /// Whether these are its bytes.
    pub(super) fn holds(&self, bytes: &[u8], git: &Git) -> Result<bool, EngineError> {
        // Repositories that name objects by SHA-256 are asked for the object itself.
        let by_sha1 = whatif_patch::blob_id(bytes);
        if by_sha1.len() == self.id.len() { Ok(by_sha1 == self.id) } else { Ok(self.bytes(git)? == bytes) }
    }

    pub(super) fn bytes(&self, git: &Git) -> Result<Vec<u8>, EngineError> {
        git.bytes(&["cat-file", "blob", &self.id])
    }
}
