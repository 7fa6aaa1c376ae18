//! What can go wrong with a provider.

use std::io;
use std::path::{Path, PathBuf};

use whatif_keeper::ChannelError;
use whatif_types::explain::kind_of;
use whatif_types::remedy::{Call, Mention};
use whatif_types::{Explain, Kind, Remedy, remedy};

use crate::{LimitError, Obstacle, Scope};

#[derive(Debug, thiserror::Error)]
#[error("{}", .obstacle.as_ref().map_or_else(|| format!("failed to start a keeper: cannot {step}"), |o| format!("no sandbox can be made here: {}", o.what)))]
pub struct LaunchError {
    pub step: &'static str,
    #[source]
    pub source: std::io::Error,
    /// Why, if that is known.
    pub obstacle: Option<Obstacle>,
}

impl LaunchError {
    pub(crate) fn at(step: &'static str, source: io::Error) -> Self {
        Self { step, source, obstacle: None }
    }
}

impl Explain for LaunchError {
    fn code(&self) -> &'static str {
        "keeper_start_failed"
    }

    fn kind(&self) -> Kind {
        kind_of(&self.source)
    }

    fn remedies(&self) -> Vec<Remedy> {
        if let Some(Obstacle { fix, .. }) = &self.obstacle {
            return vec![
                fix.as_str().into(),
                "nothing was run: without namespaces and mounts, no backend can keep a command away from your files".into(),
            ];
        }
        vec![remedy![Mention(Call::Doctor), " tests each thing a sandbox needs and says how to fix what is missing"]]
    }
}

/// The processes of an instance could not be saved.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    #[error("the sandbox's provider cannot save running processes")]
    Unsupported,
}

impl Explain for CheckpointError {
    fn code(&self) -> &'static str {
        match self {
            Self::Unsupported => "unsupported",
        }
    }

    fn kind(&self) -> Kind {
        match self {
            Self::Unsupported => Kind::Unavailable,
        }
    }

    fn remedies(&self) -> Vec<Remedy> {
        match self {
            Self::Unsupported => vec!["take a snapshot: it keeps the files; after a rollback, start the commands again".into()],
        }
    }
}

/// The limits of an instance could not be set up.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Not for people: the command starts itself anew there.
    #[error("limits are to be had in a scope of the service manager only")]
    ScopeNeeded { scope: Scope },
    #[error("failed to examine {}", path.display())]
    State {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(transparent)]
    Limits(#[from] LimitError),
}

/// An instance could not be put on other layers.
#[derive(Debug, thiserror::Error)]
#[error("{message}")]
pub struct RestackError {
    pub message: String,
    /// What the kernel said, if it was the kernel.
    pub errno: Option<i32>,
}

impl RestackError {
    pub(crate) fn of_helper(message: &str) -> Self {
        Self { message: message.to_owned(), errno: None }
    }

    pub(crate) fn not_entered(directory: &Path, error: &io::Error) -> Self {
        let message = format!("failed to enter the sandbox in {}: {error}", directory.display());
        Self { message, errno: error.raw_os_error() }
    }
}

impl From<ChannelError> for RestackError {
    fn from(error: ChannelError) -> Self {
        Self { message: format!("the helper was lost: {error}"), errno: None }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("there is no provider called '{name}'")]
pub struct UnknownProvider {
    pub(crate) name: String,
}

impl Explain for UnknownProvider {
    fn code(&self) -> &'static str {
        "unknown_provider"
    }

    fn kind(&self) -> Kind {
        Kind::Invalid
    }

    fn remedies(&self) -> Vec<Remedy> {
        let available: Vec<&str> = crate::ALL.iter().map(|provider| provider.name()).collect();
        vec![format!("available: {}", available.join(", ")).into()]
    }
}
