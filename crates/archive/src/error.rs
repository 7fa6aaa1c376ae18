//! What reading and writing an archive can fail with.

use std::io;
use std::path::{Path, PathBuf};

use whatif_types::explain::kind_of;
use whatif_types::remedy::{Call, Choice, Mention, Value};
use whatif_types::{Explain, Kind, Remedy, remedy};

/// Names out of an archive are shown escaped and cut: they may be made to confuse a terminal.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    #[error("failed to {action} {}", path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("failed to read the archive")]
    Input(#[source] io::Error),
    #[error("failed to write the archive")]
    Output(#[source] io::Error),

    #[error("this is not an archive of whatif")]
    NotAnArchive,
    #[error("the archive has format {found}, and this version of whatif reads format {}", crate::FORMAT)]
    UnknownFormat { found: String },
    #[error("the archive ends too early")]
    Truncated,
    #[error("the archive goes on after its end")]
    Trailing,
    #[error("the archive is damaged: {why}")]
    Damaged { why: String },

    #[error("the manifest {why}")]
    Manifest { why: String },
    #[error("'{id}' cannot be the id of a layer")]
    LayerId { id: String },
    #[error("the archive has layer '{layer}' where the manifest has {expected}")]
    UnexpectedLayer { layer: String, expected: String },
    #[error("layer '{layer}' of the manifest is not in the archive")]
    MissingLayer { layer: String },
    #[error("layer '{layer}' is not what the manifest says: {why}")]
    Mismatch { layer: String, why: &'static str },

    #[error("entry '{name}' {why}")]
    Malformed { name: String, why: &'static str },
    #[error("the name '{name}' {why}")]
    Name { name: String, why: &'static str },
    #[error("entry '{name}' is there twice or out of order")]
    OutOfOrder { name: String },
    #[error("entry '{name}' lies in something that is no directory of the archive")]
    NoDirectory { name: String },
    #[error("'{name}' is a hard link to '{target}', which {why}")]
    HardLink { name: String, target: String, why: &'static str },
    #[error("'{name}' is a device")]
    Device { name: String },
    #[error("'{name}' belongs to {id}, which is no user or group")]
    Owner { name: String, id: u64 },
    #[error("'{name}' has the attribute '{attribute}', which no archive may set")]
    Attribute { name: String, attribute: String },
    #[error("'{name}' has the overlay mark '{mark}', which {why}")]
    Mark { name: String, mark: String, why: &'static str },

    #[error("'{name}' {what}")]
    Unsupported { name: String, what: &'static str },
    #[error("'{name}' has an access control list for users or groups whose ids cannot be read in a user namespace of one user")]
    Strangers { name: String },
    #[error("the archive has more than {limit} {what}")]
    Limit { what: &'static str, limit: u64 },
    #[error("{} changed while it was being archived", path.display())]
    Changed { path: PathBuf },
}

impl Explain for ArchiveError {
    fn code(&self) -> &'static str {
        match self {
            Self::Io { .. } | Self::Input(_) | Self::Output(_) => "io_error",
            Self::NotAnArchive => "not_an_archive",
            Self::UnknownFormat { .. } => "archive_format",
            Self::Truncated | Self::Trailing | Self::Damaged { .. } | Self::Mismatch { .. } => "archive_damaged",
            Self::Manifest { .. }
            | Self::LayerId { .. }
            | Self::UnexpectedLayer { .. }
            | Self::MissingLayer { .. }
            | Self::Malformed { .. }
            | Self::Name { .. }
            | Self::OutOfOrder { .. }
            | Self::NoDirectory { .. }
            | Self::HardLink { .. }
            | Self::Device { .. }
            | Self::Owner { .. }
            | Self::Attribute { .. }
            | Self::Mark { .. } => "archive_refused",
            Self::Unsupported { .. } | Self::Strangers { .. } => "unsupported",
            Self::Limit { .. } => "archive_too_large",
            Self::Changed { .. } => "changed_meanwhile",
        }
    }

    fn kind(&self) -> Kind {
        match self {
            Self::Io { source, .. } | Self::Input(source) | Self::Output(source) => kind_of(source),
            Self::Strangers { .. } => Kind::Forbidden,
            Self::Limit { .. } => Kind::Exhausted,
            Self::Changed { .. } => Kind::Conflict,
            _ => Kind::Invalid,
        }
    }

    fn remedies(&self) -> Vec<Remedy> {
        let words = match self.code() {
            _ if matches!(self, Self::Strangers { .. }) => {
                return vec![remedy![
                    "remove the list inside the sandbox (setfacl -b FILE), take a snapshot and merge all layers (",
                    Call::Squash { name: Value::Blank },
                    "), or let root make and export the sandbox"
                ]];
            }
            _ if matches!(self, Self::NotAnArchive) => {
                return vec![remedy!["name a file that ", Mention(Call::export(Value::Unsaid)), " wrote"]];
            }
            _ if matches!(self, Self::Input(error) if error.kind() == io::ErrorKind::IsADirectory) => {
                return vec![remedy!["that is a directory; name a file that ", Mention(Call::export(Value::Unsaid)), " wrote"]];
            }
            _ if matches!(self, Self::Output(_)) => {
                return vec![remedy!["make room there, or write it somewhere else: ", Choice::Output(Value::Blank)]];
            }
            "archive_format" => "use the version of whatif that made the archive, or a newer one",
            "archive_damaged" => "copy or download the archive again; nothing of it was taken over",
            "archive_refused" => "whatif does not write such archives: do not trust where this one comes from",
            "unsupported" => "read the archive as root, or archive the sandbox after the change is undone",
            "archive_too_large" => "make room on the disk of the state directory, if you trust where the archive comes from",
            "changed_meanwhile" => "stop what still writes to the layer and archive it again",
            _ => return Vec::new(),
        };
        vec![words.into()]
    }

    fn retryable(&self) -> bool {
        matches!(self, Self::Changed { .. })
    }
}

/// A name out of an archive, fit to be printed.
pub(crate) fn shown(name: &[u8]) -> String {
    const LONGEST: usize = 160;
    let text = String::from_utf8_lossy(name);
    let mut shown: String = text.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    if text.chars().nth(LONGEST).is_some() {
        shown.push('…');
    }
    shown
}

/// Names the path in an error: `.map_err(on("open", &path))`.
pub(crate) fn on<E: Into<io::Error>>(action: &'static str, path: &Path) -> impl FnOnce(E) -> ArchiveError {
    move |error| ArchiveError::Io { action, path: path.to_owned(), source: error.into() }
}
