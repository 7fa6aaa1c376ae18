//! What can be wrong with what every part stands on: the records, the state directory, the machine, and the sandboxes as they are.

mod remedies;

use std::io;
use std::path::PathBuf;

use whatif_diff::Unreadable;
use whatif_keeper::client::ClientError;
use whatif_layers::PathError;
use whatif_provider::{LimitError, Scope, UnknownProvider};
use whatif_store::StoreError;
use whatif_types::explain::kind_of;
use whatif_types::limits::{Means, Resource};
use whatif_types::name::InvalidName;
use whatif_types::{Explain, Kind, Remedy};

pub(crate) use self::remedies::of_io;
use crate::missing::{Missing, in_words};
use crate::owner::Owner;

#[derive(Debug, thiserror::Error)]
pub enum GroundError {
    #[error("there is no sandbox called '{name}'")]
    NoSuchSandbox { name: String },
    #[error("sandbox '{name}' was removed meanwhile, by another command")]
    Removed {
        name: String,
        /// Whether a command had begun.
        has_run: bool,
    },
    #[error("there is no sandbox of {}", project.display())]
    NoSandboxHere { project: PathBuf },
    #[error("'{prefix}' fits several sandboxes: {}", names.join(", "))]
    Ambiguous { prefix: String, names: Vec<String> },
    #[error("{} no snapshot called '{label}'", sandbox.as_ref().map_or("there is".to_owned(), |s| format!("sandbox '{s}' has")))]
    NoSuchSnapshot { label: String, sandbox: Option<String> },
    #[error("no sandbox or snapshot is called '{name}'")]
    NoSuchPosition { name: String },
    #[error("'{label}' fits several snapshots: {}", names.join(", "))]
    AmbiguousSnapshot { label: String, names: Vec<String> },
    #[error("'{label}' is no snapshot of '{sandbox}', nor on the way it came")]
    NotItsOwn { label: String, sandbox: String },
    #[error("there is no template called '{name}'")]
    NoSuchTemplate { name: String },

    #[error("{} is incomplete: {}", owner.described(), in_words(missing))]
    Incomplete {
        owner: Owner,
        missing: Vec<Missing>,
        /// Snapshots of the same sandbox that are all there.
        intact: Vec<String>,
    },
    #[error("sandbox '{name}' has changes in {} that belong to no directory it records", path.display())]
    StrayHead { name: String, path: PathBuf },
    #[error("sandbox '{name}' has changes in {}, where nothing is mounted any more", tree.display())]
    Unmounted { name: String, tree: PathBuf },
    #[error("sandbox '{name}' has changes in {}, where something else is mounted by now", place.display())]
    MountedOver { name: String, place: PathBuf },
    #[error("the records of sandbox '{name}' are older than the sandbox: the database lacks layers that it stands on")]
    Behind { name: String },
    #[error("the project of sandbox '{name}' is not at {} any more: it was moved or deleted", project.display())]
    ProjectMissing { name: String, project: PathBuf },
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    #[error("fuse-overlayfs mistakes files for each other in merged layers, so they stay as they are")]
    SquashOverFuse,

    #[error("sandbox '{name}' is stopped")]
    Stopped { name: String },
    /// With everything that ran in it.
    #[error("sandbox '{name}' was stopped {}", if *.has_run { "while the command ran" } else { "meanwhile" })]
    EndedMeanwhile {
        name: String,
        /// Whether a command had begun. If not, it may still have: who asked for it was not told.
        has_run: bool,
    },
    #[error("sandbox '{name}' is busy: another command is changing it")]
    Busy { name: String },
    #[error("sandbox '{name}' was started by another version of whatif, which cannot be asked for that")]
    OtherKeeper { name: String },
    #[error(transparent)]
    Keeper(ClientError),

    #[error("{why}")]
    Limit { why: String, examples: &'static str },
    #[error("there are no limits called '{}'", name.escape_debug())]
    NoSuchLimits { name: String, known: Vec<String> },
    #[error("the limit on {resource} would only be {by}{}", if why.is_empty() { String::new() } else { format!(": {why}") })]
    LimitsUnavailable { resource: Resource, by: Means, why: String, fix: Option<String> },
    /// Not for people: the command starts itself anew there.
    #[error("control groups are to be had in a scope of the service manager only")]
    ScopeNeeded { scope: Scope },
    #[error("failed to set up the sandbox's limits: {0}")]
    Limits(#[from] LimitError),

    /// Both kinds of marks in a head look like nothing to the other.
    #[error("sandbox '{name}' was made {} the rights of root, and this process {}", if *with { "with" } else { "without" }, if *with { "lacks them" } else { "has them" })]
    OtherRights { name: String, with: bool },
    #[error("this already is the sandbox '{outer}', and sandboxes cannot be made or managed inside one")]
    Nested { outer: String },
    #[error("another command with the key '{}' has not ended", key.escape_debug())]
    KeyInUse { key: String },
    #[error("the current directory cannot be used: it was deleted, or is closed to you")]
    NoCurrentDirectory {
        #[source]
        source: io::Error,
    },
    #[error("there is no room for more: {why}")]
    NoRoom { why: String },
    #[error("failed to {action} {}", path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// In the state directory.
    #[error(transparent)]
    Path(#[from] PathError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Provider(#[from] UnknownProvider),
    #[error(transparent)]
    Name(#[from] InvalidName),
}

impl GroundError {
    /// Whether it may come of the sandbox being removed at this moment.
    pub(crate) fn is_of_what_is_there(&self) -> bool {
        matches!(
            self,
            Self::Incomplete { .. }
                | Self::Keeper(_)
                | Self::Io { .. }
                | Self::Path(_)
                | Self::Unreadable(_)
                | Self::Busy { .. }
                | Self::Stopped { .. }
                | Self::Store(_)
        )
    }
}

impl Explain for GroundError {
    fn code(&self) -> &'static str {
        match self {
            Self::NoSuchSandbox { .. } | Self::NoSandboxHere { .. } | Self::Removed { .. } => "not_found",
            Self::NoSuchSnapshot { .. } | Self::NoSuchTemplate { .. } | Self::NoSuchPosition { .. } => "not_found",
            Self::Ambiguous { .. } | Self::AmbiguousSnapshot { .. } => "ambiguous_name",
            Self::Incomplete { .. } | Self::Behind { .. } | Self::StrayHead { .. } => "incomplete",
            Self::Unmounted { .. } => "unmounted",
            Self::MountedOver { .. } => "mounts_changed",
            Self::ProjectMissing { .. } => "project_missing",
            Self::Unreadable(_) => "unreadable",
            Self::Stopped { .. } => "stopped",
            Self::EndedMeanwhile { .. } => "ended_meanwhile",
            Self::Busy { .. } => "busy",
            Self::OtherKeeper { .. } => "other_version",
            Self::Keeper(_) => "keeper_unreachable",
            Self::LimitsUnavailable { .. } | Self::ScopeNeeded { .. } => "limits_unavailable",
            Self::Limits(_) => "limits_failed",
            Self::NotItsOwn { .. } => "other_sandbox",
            Self::SquashOverFuse => "cannot_squash",
            Self::Limit { .. } => "invalid_limit",
            Self::NoSuchLimits { .. } => "unknown_limits",
            Self::Nested { .. } => "inside_sandbox",
            Self::OtherRights { .. } => "other_rights",
            Self::NoCurrentDirectory { .. } => "bad_directory",
            Self::KeyInUse { .. } => "key_in_use",
            Self::NoRoom { .. } => "no_room",
            Self::Io { .. } | Self::Path(_) => "io_error",
            Self::Store(error) => error.code(),
            Self::Provider(error) => error.code(),
            Self::Name(_) => "invalid_name",
        }
    }

    fn kind(&self) -> Kind {
        match self {
            Self::NoSuchSandbox { .. } | Self::NoSandboxHere { .. } | Self::Removed { .. } => Kind::NotFound,
            Self::NoSuchSnapshot { .. } | Self::NoSuchTemplate { .. } | Self::NoSuchPosition { .. } => Kind::NotFound,
            Self::ProjectMissing { .. } | Self::NoSuchLimits { .. } => Kind::NotFound,
            Self::Ambiguous { .. } | Self::AmbiguousSnapshot { .. } | Self::NotItsOwn { .. } => Kind::Invalid,
            Self::KeyInUse { .. } => Kind::Unavailable,
            Self::NoCurrentDirectory { .. } | Self::Name(_) | Self::Limit { .. } => Kind::Invalid,
            Self::Unmounted { .. } | Self::MountedOver { .. } => Kind::Conflict,
            Self::Stopped { .. } | Self::EndedMeanwhile { .. } => Kind::Conflict,
            Self::Nested { .. } | Self::OtherRights { .. } => Kind::Forbidden,
            Self::NoRoom { .. } => Kind::Exhausted,
            Self::LimitsUnavailable { .. } | Self::ScopeNeeded { .. } | Self::SquashOverFuse => Kind::Unavailable,
            Self::Busy { .. } | Self::OtherKeeper { .. } | Self::Keeper(_) => Kind::Unavailable,
            Self::Incomplete { .. } | Self::Behind { .. } | Self::StrayHead { .. } => Kind::Internal,
            Self::Io { source, .. } => kind_of(source),
            Self::Path(error) => kind_of(&error.source),
            Self::Unreadable(unreadable) => kind_of(&unreadable.cause.into()),
            Self::Limits(error) => error.kind(),
            Self::Store(error) => error.kind(),
            Self::Provider(error) => error.kind(),
        }
    }

    fn remedies(&self) -> Vec<Remedy> {
        self.proposals()
    }

    fn details(&self) -> Option<serde_json::Value> {
        match self {
            Self::Incomplete { missing, .. } => serde_json::to_value(missing).ok(),
            Self::EndedMeanwhile { name, has_run: true } | Self::Removed { name, has_run: true } => {
                Some(serde_json::json!({ "ran": true, "sandbox": name }))
            }
            _ => None,
        }
    }

    fn retryable(&self) -> bool {
        match self {
            Self::Busy { .. } => true,
            Self::Store(error) => error.retryable(),
            _ => false,
        }
    }
}

/// The first of them; all are in the details.
pub(crate) fn listed<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> String {
    const MOST: usize = 5;
    let all: Vec<String> = paths.into_iter().map(|path| path.display().to_string()).collect();
    match all.len().checked_sub(MOST) {
        None | Some(0) => all.join(", "),
        Some(more) => format!("{} and {more} more", all[..MOST].join(", ")),
    }
}
