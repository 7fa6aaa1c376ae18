//! Which sandbox is meant.

use std::path::PathBuf;

use crate::{Sandbox, SandboxId};

/// How a sandbox is named by whoever asks for something. Which one that is, the records say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selector {
    /// This one, whatever it is called.
    Id(SandboxId),
    /// What a person types: a name, or the beginning of an id where no sandbox has that name. Which of both cannot be told from the
    /// word, as a name may look like an id.
    Word(String),
    /// The one of a project that was used last. Those of a race are not meant.
    LatestOf(PathBuf),
}

impl Selector {
    /// The word that was said for it, if any.
    #[must_use]
    pub fn word(&self) -> Option<&str> {
        match self {
            Self::Id(id) => Some(id.as_str()),
            Self::Word(word) => Some(word),
            Self::LatestOf(_) => None,
        }
    }
}

impl From<&str> for Selector {
    fn from(word: &str) -> Self {
        Self::Word(word.to_owned())
    }
}

impl From<&Sandbox> for Selector {
    fn from(sandbox: &Sandbox) -> Self {
        Self::Id(sandbox.id.clone())
    }
}
