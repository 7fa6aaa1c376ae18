//! Where the state directory is, and what is to be said when that is not its usual place.

use std::path::{Path, PathBuf};

use whatif_layers::state_place::{self, Found, Medium};
use whatif_layers::{StateDir, survey};
use whatif_types::Size;

use crate::EngineError;

#[derive(Clone, Debug)]
pub struct StatePlace {
    pub path: PathBuf,
    /// Where it would be if that could hold overlays.
    instead_of: Option<(PathBuf, Found)>,
}

/// What there is to say about it.
#[derive(Clone, Debug)]
pub struct Remark {
    pub what: String,
    pub fix: String,
}

impl StatePlace {
    /// One that the user names.
    #[must_use]
    pub fn given(path: PathBuf) -> Self {
        Self { path, instead_of: None }
    }

    /// The usual one, or another where that cannot hold overlays.
    pub fn usual(usual: PathBuf, home: &Path) -> Result<Self, EngineError> {
        Ok(match state_place::instead_of(&usual, home)? {
            None => Self::given(usual),
            Some(found) => Self { path: found.path.clone(), instead_of: Some((usual, found)) },
        })
    }

    /// For whoever is the first to use it.
    pub fn remark_if_new(&self) -> Result<Option<Remark>, EngineError> {
        Ok(if self.instead_of.is_none() || StateDir::is_made(&self.path)? { None } else { self.remark()? })
    }

    pub fn remark(&self) -> Result<Option<Remark>, EngineError> {
        let Some((usual, found)) = &self.instead_of else { return Ok(None) };
        let medium = match found.medium {
            Medium::Memory => "in memory, so they are gone when the container stops",
            Medium::Disk => "which outlasts the container only if it is a volume",
        };
        let what = format!(
            "sandboxes are kept in {} ({} free, {medium}), because {} is on an overlay file system, which cannot hold them",
            found.path.display(),
            Size(found.room),
            usual.display()
        );
        let example = state_place::lasting(&survey::mounts()?)?;
        let example = example.map(|volume| format!(" ({} is one)", volume.display())).unwrap_or_default();
        Ok(Some(Remark { what, fix: format!("to keep them longer, set WHATIF_HOME to a directory on a volume{example}") }))
    }
}
