//! What git refuses, or is in the way of.

use std::path::PathBuf;

use whatif_types::remedy::Argument;
use whatif_types::{Explain, Kind, Remedy, remedy};

#[derive(Debug, thiserror::Error)]
pub enum GitError {
    #[error("failed to {action}: {message}")]
    Failed {
        action: &'static str,
        message: String,
        /// May be empty.
        remedy: Remedy,
    },
    #[error("git is at work in reality: {} is there", lock.display())]
    AtWork { lock: PathBuf },
}

impl Explain for GitError {
    fn code(&self) -> &'static str {
        match self {
            Self::Failed { .. } => "git_failed",
            Self::AtWork { .. } => "git_at_work",
        }
    }

    fn kind(&self) -> Kind {
        match self {
            Self::Failed { .. } => Kind::Conflict,
            Self::AtWork { .. } => Kind::Unavailable,
        }
    }

    fn remedies(&self) -> Vec<Remedy> {
        match self {
            Self::Failed { remedy, .. } if remedy.is_empty() => Vec::new(),
            Self::Failed { remedy, .. } => vec![remedy.clone()],
            Self::AtWork { lock } => vec![
                "nothing was written. Try again when that git command has ended".into(),
                remedy!["if none is running there, one was killed and left it behind: rm ", Argument(lock)],
            ],
        }
    }

    fn retryable(&self) -> bool {
        matches!(self, Self::AtWork { .. })
    }
}
