//! What an apply notes about the commit that belongs to it, next to its journal: enough to finish the commit or to take it back.

use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use whatif_sys::absence::OrAbsent;
use whatif_types::text;

use crate::{EngineError, private_file};

const FILE: &str = "commit.json";

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Note {
    /// Of the apply. It is part of the names of all files of ours in the repository.
    pub id: String,
    /// Milliseconds since 1970. No lock that is older can be ours.
    pub at: u64,
    /// The repository's work tree.
    #[serde(with = "text::path")]
    pub root: PathBuf,
    /// Git's own directory, where the index lies.
    #[serde(with = "text::path")]
    pub directory: PathBuf,
    /// The branch, or `HEAD` if none is checked out.
    pub reference: String,
    /// The file that git keeps it in, unless it keeps all of them together.
    #[serde(with = "text::path")]
    pub branch: PathBuf,
    /// Where git keeps its objects.
    #[serde(default, with = "text::optional_path")]
    pub objects: Option<PathBuf>,
    /// What it leads to, if there is a commit.
    pub parent: Option<String>,
    /// What it is to lead to; `None` until that is written.
    pub commit: Option<String>,
}

impl Note {
    /// On the disk when this returns.
    pub(super) fn write(&self, apply: &Path) -> Result<(), EngineError> {
        let path = apply.join(FILE);
        let bytes = serde_json::to_vec(self).map_err(|e| EngineError::io("write", &path, e.into()))?;
        private_file::replace_durably(&path, &bytes).map_err(|e| EngineError::io("write", &path, e))
    }

    /// `None` for an apply without a commit. One that cannot be understood is an error: the commit would stay half done.
    pub(crate) fn read(apply: &Path) -> Result<Option<Self>, EngineError> {
        let path = apply.join(FILE);
        let text = std::fs::read(&path).or_absent().map_err(|e| EngineError::io("read", &path, e))?;
        text.map(|text| serde_json::from_slice(&text).map_err(|e| EngineError::io("read", &path, e.into()))).transpose()
    }
}
