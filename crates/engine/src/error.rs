//! Everything a use case can fail with: the sum of what the parts can fail with.
//!
//! Each part has an error of its own, with its codes, messages and remedies, in its own folder. Nearly every use case asks several
//! parts and the records, so what it returns is this sum; what a part has to tell apart, it matches by the part that said it.

mod layer_paths;
#[cfg(test)]
mod tests;

use std::io;
use std::path::Path;

use whatif_apply::ApplyError;
use whatif_archive::ArchiveError;
use whatif_diff::Unreadable;
use whatif_diff::pattern::BadPattern;
use whatif_keeper::client::ClientError;
use whatif_layers::PathError;
use whatif_provider::{LaunchError, LimitError, RestackError, UnknownProvider};
use whatif_store::StoreError;
use whatif_types::name::InvalidName;
use whatif_types::remedy::Sentence;
use whatif_types::{Explain, Kind, Remedy};

use crate::changes::ChangesError;
use crate::config_file::ConfigError;
use crate::git::GitError;
use crate::ground::GroundError;
use crate::history::HistoryError;
use crate::lifecycle::{FileError, LifecycleError};
use crate::network::{NetworkError, NetworkMisuse};
use crate::races::RaceError;

#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Ground(#[from] GroundError),
    #[error(transparent)]
    Network(#[from] NetworkError),
    #[error(transparent)]
    Lifecycle(#[from] LifecycleError),
    #[error(transparent)]
    History(#[from] HistoryError),
    #[error(transparent)]
    Changes(#[from] ChangesError),
    #[error(transparent)]
    Race(#[from] RaceError),
}

impl EngineError {
    #[must_use]
    pub fn io(action: &'static str, path: impl AsRef<Path>, source: io::Error) -> Self {
        Self::Ground(GroundError::Io { action, path: path.as_ref().to_owned(), source })
    }

    /// The caller's directory was deleted.
    pub(crate) fn no_current_directory() -> Self {
        Self::Ground(GroundError::NoCurrentDirectory { source: io::ErrorKind::NotFound.into() })
    }

    /// What the kernel said about a path, if it is that.
    pub(crate) fn of_path(&self) -> Option<&io::Error> {
        match self {
            Self::Ground(GroundError::Io { source, .. }) => Some(source),
            Self::Ground(GroundError::Path(error)) => Some(&error.source),
            _ => None,
        }
    }

    /// Whether it may come of the sandbox being removed at this moment.
    pub(crate) fn is_of_what_is_there(&self) -> bool {
        match self {
            Self::Ground(error) => error.is_of_what_is_there(),
            Self::Network(error) => error.is_of_what_is_there(),
            Self::Lifecycle(error) => error.is_of_what_is_there(),
            Self::History(error) => error.is_of_what_is_there(),
            Self::Config(_) | Self::Git(_) | Self::Changes(_) | Self::Race(_) => false,
        }
    }

    /// Whether a transaction in a project failed.
    pub(crate) fn is_of_transaction(&self) -> bool {
        matches!(self, Self::Changes(ChangesError::Apply(_)))
    }

    /// The same, with its cause told in another way if it only says that something was done all the same.
    pub(crate) fn with_cause(self, told: impl FnOnce(Self) -> Self) -> Result<Self, Self> {
        match self {
            Self::Lifecycle(LifecycleError::RanBut { name, code, source }) => {
                Ok(LifecycleError::RanBut { name, code, source: Box::new(told(*source)) }.into())
            }
            Self::Lifecycle(LifecycleError::WorkGone { name, code, source }) => {
                Ok(LifecycleError::WorkGone { name, code, source: Box::new(told(*source)) }.into())
            }
            other => Err(other),
        }
    }

    fn of_part(&self) -> &dyn Explain {
        match self {
            Self::Config(error) => error,
            Self::Git(error) => error,
            Self::Ground(error) => error,
            Self::Network(error) => error,
            Self::Lifecycle(error) => error,
            Self::History(error) => error,
            Self::Changes(error) => error,
            Self::Race(error) => error,
        }
    }
}

impl Explain for EngineError {
    fn code(&self) -> &'static str {
        self.of_part().code()
    }

    fn kind(&self) -> Kind {
        self.of_part().kind()
    }

    fn remedies(&self) -> Vec<Remedy> {
        self.of_part().remedies()
    }

    fn wording(&self) -> Option<Sentence> {
        self.of_part().wording()
    }

    fn details(&self) -> Option<serde_json::Value> {
        self.of_part().details()
    }

    fn retryable(&self) -> bool {
        self.of_part().retryable()
    }
}

/// What comes from a crate below belongs to the part that is about such things.
macro_rules! belongs {
    ($($error:ty => $part:ty),* $(,)?) => {
        $(impl From<$error> for EngineError {
            fn from(error: $error) -> Self {
                <$part>::from(error).into()
            }
        })*
    };
}

belongs! {
    Unreadable => GroundError,
    LimitError => GroundError,
    PathError => GroundError,
    StoreError => GroundError,
    UnknownProvider => GroundError,
    InvalidName => GroundError,
    NetworkMisuse => NetworkError,
    LaunchError => LifecycleError,
    RestackError => LifecycleError,
    FileError => LifecycleError,
    ArchiveError => HistoryError,
    ApplyError => ChangesError,
    BadPattern => ChangesError,
}

impl From<ClientError> for EngineError {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Failed(failed) => LifecycleError::refused(failed).into(),
            other => GroundError::Keeper(other).into(),
        }
    }
}
