//! A configuration file, or another one that people may edit, says something that makes no sense.

use std::path::PathBuf;

use whatif_types::{Explain, Kind, Remedy};

#[derive(Debug, thiserror::Error)]
#[error("{}: {message}", path.display())]
pub struct ConfigError {
    pub path: PathBuf,
    pub message: String,
}

impl Explain for ConfigError {
    fn code(&self) -> &'static str {
        "bad_config"
    }

    fn kind(&self) -> Kind {
        Kind::Invalid
    }

    fn remedies(&self) -> Vec<Remedy> {
        vec!["docs/configuration.md lists the keys and what a project may set".into()]
    }
}
