//! What an archive says about itself, as far as anything listens to it.
//!
//! Its maker may have written anything. So this is a list of what is read, not of what is left out: files need a kind, a name and
//! the trees that they lie in; the project and the backend are only compared with the importer's.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use whatif_archive::Manifest;
use whatif_types::{Backend, LayerId, Lockfile, text};

use super::ground::is_plain;
use crate::EngineError;
use crate::history::HistoryError;
use crate::history::export::Kind;

#[derive(Clone, Debug, Deserialize)]
pub struct Claims {
    pub kind: Kind,
    pub name: String,
    #[serde(with = "text::path")]
    pub project: PathBuf,
    pub made_by_root: bool,
    pub exported_at: u64,
    pub message: Option<String>,
    pub lockfiles: Vec<Lockfile>,
    pub details: ClaimedDetails,
}

#[derive(Clone, Debug, Deserialize)]
pub struct ClaimedDetails {
    #[serde(with = "text::path")]
    pub cwd: PathBuf,
    pub backend: Backend,
    #[serde(with = "text::paths")]
    pub trees: Vec<PathBuf>,
    #[serde(default)]
    pub copied_trees: Vec<usize>,
    #[serde(default)]
    pub mounted_trees: Vec<usize>,
    /// Hidden here as well: a mask takes away and grants nothing.
    pub masked: Vec<String>,
    /// What its layers may hold of the other machine's masked files: hidden, unless the importer shows it.
    pub exposed: Vec<String>,
    #[serde(default)]
    pub veiled: Vec<String>,
    #[serde(default)]
    pub based_at: Option<u64>,
    #[serde(default)]
    pub position: ClaimedPosition,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ClaimedPosition {
    pub stack: Vec<LayerId>,
}

impl Claims {
    pub(crate) fn of(manifest: &Manifest) -> Result<Self, EngineError> {
        serde_json::from_value(manifest.about.clone())
            .map_err(|e| HistoryError::BadArchive { why: format!("its manifest is not understood ({e})") }.into())
    }

    /// What was hidden where it comes from: what can be hidden here, and what cannot because `--mask` never writes it so, or
    /// because the project would be gone with it.
    pub(crate) fn masks(&self) -> (Vec<String>, Vec<String>) {
        self.details.masked.iter().cloned().partition(|mask| {
            let path = mask.strip_prefix("~/").map_or_else(|| PathBuf::from(mask), |rest| Path::new("/").join(rest));
            is_plain(&path) && path.parent().is_some() && !self.project.starts_with(mask) && !mask.contains(char::is_control)
        })
    }
}
