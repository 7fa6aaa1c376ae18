//! What git has of each file: in the last commit, and staged.

use std::collections::{BTreeMap, HashSet};
use std::ops::Bound;
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
    pub head: BTreeMap<PathBuf, Entry>,
    pub index: BTreeMap<PathBuf, Entry>,
    /// In the index, and left out of the checkout.
    pub skipped: HashSet<PathBuf>,
}

impl Tracked {
    pub(super) fn of(git: &Git) -> Result<Self, EngineError> {
        let by_path = |listed: Vec<(String, String, PathBuf)>| {
            listed.into_iter().map(|(mode, id, path)| (path, Entry { mode, id })).collect::<BTreeMap<_, _>>()
        };
        let skipped = git.skipped()?.into_iter().collect();
        Ok(Self { head: by_path(git.committed()?), index: by_path(git.staged()?), skipped })
    }

    /// A file that cannot be in the same tree as one at `path`: `path` lies in it as if it were a directory, or it lies in `path`.
    /// Git drops such entries without a word. `goes` tells which of them are deleted anyway.
    pub(super) fn in_the_way(&self, path: &Path, goes: &dyn Fn(&Path) -> bool) -> Option<&Path> {
        [&self.index, &self.head].into_iter().find_map(|entries| {
            let above = path.ancestors().skip(1).filter_map(|above| entries.get_key_value(above));
            // The names in a directory follow it directly.
            let below = entries.range::<Path, _>((Bound::Excluded(path), Bound::Unbounded));
            let below = below.take_while(|(entry, _)| entry.starts_with(path));
            above.chain(below).map(|(entry, _)| entry.as_path()).find(|entry| !goes(entry))
        })
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
