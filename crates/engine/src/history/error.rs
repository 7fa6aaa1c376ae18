//! What can go wrong with snapshots, templates and archives.

use std::path::PathBuf;

use whatif_archive::ArchiveError;
use whatif_types::remedy::{Call, Choice, Mention};
use whatif_types::{Backend, Explain, Kind, Remedy, remedy};

use crate::ground::error::of_io;

#[derive(Debug, thiserror::Error)]
pub enum HistoryError {
    #[error("the archive cannot be used: {why}")]
    BadArchive { why: String },
    #[error("the archive was made for the project {}, and this is {}", theirs.display(), yours.display())]
    OtherProject { theirs: PathBuf, yours: PathBuf, is_here: bool },
    #[error("the archive was made with the backend {theirs}, and sandboxes are made with {yours} here")]
    OtherBackend { theirs: Backend, yours: Backend },
    #[error(transparent)]
    Archive(#[from] ArchiveError),
}

impl HistoryError {
    /// Whether it may come of the sandbox being removed at this moment.
    pub(crate) fn is_of_what_is_there(&self) -> bool {
        matches!(self, Self::Archive(_))
    }
}

impl Explain for HistoryError {
    fn code(&self) -> &'static str {
        match self {
            Self::BadArchive { .. } => "bad_archive",
            Self::OtherProject { .. } => "other_project",
            Self::OtherBackend { .. } => "other_backend",
            Self::Archive(error) => error.code(),
        }
    }

    fn kind(&self) -> Kind {
        match self {
            Self::BadArchive { .. } => Kind::Invalid,
            Self::OtherProject { .. } | Self::OtherBackend { .. } => Kind::Conflict,
            Self::Archive(error) => error.kind(),
        }
    }

    fn remedies(&self) -> Vec<Remedy> {
        vec![match self {
            Self::BadArchive { .. } => remedy!["nothing was imported; ", Mention(Call::ImportList), " shows what is in it"],
            Self::OtherProject { theirs, is_here: true, .. } => remedy![
                "nothing was imported; if that directory is the one you mean: ",
                Call::Import { choices: vec![Choice::Project(theirs.as_path().into())] }
            ],
            Self::OtherProject { .. } => "nothing was imported; its project must be at the same path here".into(),
            Self::OtherBackend { theirs, .. } => remedy![
                "nothing was imported; to use that backend for it: ",
                Call::Import { choices: vec![Choice::Backend(theirs.to_string().into())] }
            ],
            Self::Archive(ArchiveError::Io { source, .. }) => return of_io(source),
            Self::Archive(error) => return error.remedies(),
        }]
    }
}
