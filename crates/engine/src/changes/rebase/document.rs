//! How a rebase is told to programs.

use std::path::PathBuf;

use serde_json::{Value, json};
use whatif_diff::shown_path;
use whatif_types::text::Text;

use super::Rebased;

impl Rebased {
    #[must_use]
    pub fn document(&self) -> Value {
        let project = &self.sandbox.project;
        let texts = |paths: &[PathBuf]| paths.iter().map(|p| Text::from(shown_path(p, project))).collect::<Vec<_>>();
        json!({
            "sandbox": self.sandbox.name,
            "merged": texts(&self.merged),
            "conflicts": texts(&self.marked),
            "kept": self.kept.iter().map(|(p, _)| Text::from(shown_path(p, project))).collect::<Vec<_>>(),
            "open": self.open.iter().map(|(p, why)| json!({ "path": Text::from(shown_path(p, project)), "why": why })).collect::<Vec<_>>(),
        })
    }
}
