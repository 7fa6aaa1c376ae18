//! Everything a use case can fail with, in the words of whoever asked for it. What can be done about it is in
//! `remedies`, what programs are told in `explain`.

mod changed_path;
mod explain;
mod layer_paths;
mod misuse;
mod network;
mod race;
mod recut;
mod remedies;

use std::io;
use std::path::{Path, PathBuf};

use whatif_apply::ApplyError;
use whatif_archive::ArchiveError;
use whatif_cgroup::{CgroupError, Scope};
use whatif_diff::Unreadable;
use whatif_diff::pattern::BadPattern;
use whatif_keeper::client::ClientError;
use whatif_keeper::protocol::{Failed, Reason};
use whatif_layers::PathError;
use whatif_provider::{LaunchError, UnknownProvider};
use whatif_store::StoreError;
use whatif_types::limits::{Means, Resource};
use whatif_types::name::InvalidName;
use whatif_types::remedy::{Call, Sentence};
use whatif_types::sandbox::StopReason;
use whatif_types::{Backend, Chosen, CommandId, Remedy, Sandbox};

pub use self::changed_path::ChangedPath;
pub use self::misuse::Misuse;
pub use self::network::NetworkMisuse;
pub(crate) use self::network::{MOST_PUBLISHED, MOST_REACHED};
pub use self::race::{Clash, RaceError};
pub use self::recut::Recut;
use crate::merge::Conflict;
use crate::missing::{Missing, in_words};
use crate::owner::Owner;

#[derive(Debug, thiserror::Error)]
pub enum EngineError {
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
    #[error("{} cannot be mounted again: {how}", owner.described())]
    MountsChanged { owner: Owner, how: Recut },
    #[error("the records of sandbox '{name}' are older than the sandbox: the database lacks layers that it stands on")]
    Behind { name: String },
    #[error("'{prefix}' fits several sandboxes: {}", names.join(", "))]
    Ambiguous { prefix: String, names: Vec<String> },
    #[error("{} no snapshot called '{label}'", sandbox.as_ref().map_or("there is".to_owned(), |s| format!("sandbox '{s}' has")))]
    NoSuchSnapshot { label: String, sandbox: Option<String> },
    #[error("'{label}' fits several snapshots: {}", names.join(", "))]
    AmbiguousSnapshot { label: String, names: Vec<String> },
    #[error("there is no sandbox and no snapshot called '{name}'")]
    NoSuchPosition { name: String },
    #[error("sandbox '{name}' is in use: {because}")]
    InUse { name: String, because: String },
    #[error("the sandbox's layers could not be changed: {message}")]
    Restack {
        message: String,
        /// What the kernel said, if it was the kernel.
        errno: Option<i32>,
    },
    #[error("a helper cannot be started, so nothing was changed")]
    Helper {
        #[source]
        source: io::Error,
    },
    #[error("there is no room for more: {why}")]
    NoRoom { why: String },
    #[error("the archive cannot be used: {why}")]
    BadArchive { why: String },
    #[error("the archive was made for the project {}, and this is {}", theirs.display(), yours.display())]
    OtherProject { theirs: PathBuf, yours: PathBuf, is_here: bool },
    #[error("the archive was made with the backend {theirs}, and sandboxes are made with {yours} here")]
    OtherBackend { theirs: Backend, yours: Backend },
    #[error(transparent)]
    Archive(#[from] ArchiveError),
    #[error("there is no template called '{name}'")]
    NoSuchTemplate { name: String },
    #[error("sandbox '{name}' is stopped")]
    Stopped { name: String },
    /// With everything that ran in it.
    #[error("sandbox '{name}' was stopped {}", if *.has_run { "while the command ran" } else { "meanwhile" })]
    EndedMeanwhile {
        name: String,
        /// Whether a command had begun. If not, it may still have: who asked for it was not told.
        has_run: bool,
    },
    #[error("the time of sandbox '{name}' is up")]
    Expired { name: String },
    #[error("the limit on {resource} would only be {by}{}", if why.is_empty() { String::new() } else { format!(": {why}") })]
    LimitsUnavailable { resource: Resource, by: Means, why: String, fix: Option<String> },
    /// Not for people: the command starts itself anew there.
    #[error("control groups are to be had in a scope of the service manager only")]
    ScopeNeeded { scope: Scope },
    #[error("failed to set up the sandbox's limits: {0}")]
    Limits(#[from] CgroupError),
    #[error("sandbox '{name}' is busy: another command is changing it")]
    Busy { name: String },
    #[error("sandbox '{name}' is still running")]
    StillRunning { name: String },
    #[error("sandbox '{name}' was started by another version of whatif, which cannot be asked for that")]
    OtherKeeper { name: String },
    #[error("a keeper still runs over {}, but it cannot be reached", directory.display())]
    Unreachable { directory: PathBuf },
    #[error("{} cannot be used from inside: the directory does not exist or cannot be entered", path.display())]
    BadDirectory { path: PathBuf },
    #[error("{} cannot be a project: a sandbox has one of its own, and what is in the real one is not seen there", .path.display())]
    PrivateProject { path: PathBuf },
    #[error("{} is on a file system that keeps times in whole seconds: what changed within one second could not be told apart", .path.display())]
    CoarseTimes { path: PathBuf },
    #[error("the project of sandbox '{name}' is not at {} any more: it was moved or deleted", project.display())]
    ProjectMissing { name: String, project: PathBuf },
    #[error("the current directory cannot be used: it was deleted, or is closed to you")]
    NoCurrentDirectory {
        #[source]
        source: io::Error,
    },
    #[error("{}: {message}", path.display())]
    Config { path: PathBuf, message: String },
    #[error("the sandbox could not be set up: {message}")]
    Boot { message: String, errno: i32 },
    #[error("the network cannot have rules here: {message}")]
    NoRules { message: String },
    #[error("the network of '{name}' has no supervisor: {message}")]
    Supervisor { name: String, message: String },
    #[error("no way of copy-on-write works here: {}", reasons.join("; "))]
    NoBackend { reasons: Vec<String> },
    #[error("the layers cannot be mounted with backend '{backend}': {message}")]
    Backend { backend: Backend, message: String },
    #[error("{}", .0.message)]
    Command(Failed),
    #[error("there is no {chosen} in sandbox '{name}'")]
    NoSuchProcess { name: String, chosen: Chosen },
    #[error("how command {id} of sandbox '{name}' ended is not known: its keeper was lost")]
    EndUnknown { name: String, id: CommandId },
    #[error(transparent)]
    Misuse(#[from] Misuse),
    #[error(transparent)]
    NetworkMisuse(#[from] NetworkMisuse),
    #[error("nobody can be asked here, and nothing was approved")]
    NotApproved {
        /// The apply that was to be undone; none if something was to be applied.
        undo: Option<String>,
    },
    #[error("sandbox '{name}' changed since it was looked at (digest {seen}, now {now})")]
    Moved { name: String, seen: String, now: String },
    #[error("{} in conflict with reality: {}", counted(conflicts.len()), listed(conflicts.iter().map(|c| &c.path)))]
    Conflicts {
        name: String,
        conflicts: Vec<Conflict>,
        /// The sandbox was stopped on request.
        is_stopped: bool,
    },
    #[error("{} {} already", listed(paths), if paths.len() == 1 { "exists" } else { "exist" })]
    WouldReplace { paths: Vec<PathBuf> },
    #[error("there is no apply '{id}'")]
    NoSuchApply { id: String },
    #[error("'{prefix}' fits several applies: {}", ids.join(", "))]
    AmbiguousApply { prefix: String, ids: Vec<String> },
    #[error("nothing was applied in this project that could be undone{}", applied_beneath(beneath))]
    NothingToUndo {
        /// Projects in this directory that something was applied in.
        beneath: Vec<PathBuf>,
    },
    #[error("apply {id} was undone already, by {by}")]
    Undone { id: String, by: String },
    #[error("{} since apply {id}: {}", changed_since(changed.len()), changed.iter().map(|c| format!("{} {}", c.path.display(), c.why)).collect::<Vec<_>>().join("; "))]
    ChangedSince { id: String, changed: Vec<ChangedPath> },
    #[error("git is at work in reality: {} is there", lock.display())]
    GitAtWork { lock: PathBuf },
    #[error(transparent)]
    Unreadable(#[from] Unreadable),
    #[error("what was decided about '{name}' cannot be read: {} is damaged", path.display())]
    DamagedReview { name: String, path: PathBuf },
    #[error("{message}")]
    Unfinished { message: Sentence },
    #[error("sandbox '{name}' shows {} through a directory it renamed, and it could not be copied there", path.display())]
    Renamed {
        name: String,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(transparent)]
    Apply(#[from] ApplyError),
    /// Reality has changed, and stays so.
    #[error("{}, but not everything about it could be written down", if *is_undo { format!("everything is restored (undo {id})") } else { format!("the changes are applied (apply {id})") })]
    AppliedBut { id: String, is_undo: bool, source: Box<EngineError> },
    /// Running the command again would do its work twice.
    #[error("the command ran (exit code {code}), but what became of sandbox '{name}' could not be written down")]
    RanBut { name: String, code: i32, source: Box<EngineError> },
    #[error("the command ran (exit code {code}), but what it changed is not there any more")]
    WorkGone { name: String, code: i32, source: Box<EngineError> },
    #[error("interrupted by {}; nothing was changed", signal_name(*.signal))]
    Cancelled { signal: i32 },
    #[error("failed to {action}: {message}")]
    Git {
        action: &'static str,
        message: String,
        /// May be empty.
        remedy: Remedy,
    },
    #[error("check '{name}' failed on the merged result ({why}); nothing was applied")]
    CheckFailed { name: String, why: String },
    #[error(transparent)]
    Pattern(#[from] BadPattern),
    #[error("failed to {action} {}", path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(transparent)]
    Path(#[from] PathError),
    #[error("the project cannot be copied")]
    Uncopied(#[source] PathError),
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error(transparent)]
    Provider(#[from] UnknownProvider),
    #[error(transparent)]
    Name(#[from] InvalidName),
    #[error(transparent)]
    Race(#[from] RaceError),
    #[error(transparent)]
    Keeper(ClientError),
}

impl EngineError {
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { action, path: path.to_owned(), source }
    }

    #[must_use]
    pub fn conflicts(sandbox: &Sandbox, conflicts: Vec<Conflict>) -> Self {
        Self::Conflicts { name: sandbox.name.clone(), conflicts, is_stopped: was_stopped(sandbox) }
    }
}

impl From<ClientError> for EngineError {
    fn from(error: ClientError) -> Self {
        match error {
            ClientError::Failed(failed) => match failed.reason {
                Reason::Boot => Self::Boot { message: failed.message, errno: failed.errno },
                _ => Self::Command(failed),
            },
            other => Self::Keeper(other),
        }
    }
}

/// Opens a shell in a sandbox.
#[must_use]
pub fn shell_in(sandbox: &Sandbox) -> Call {
    Call::Shell { name: (&sandbox.name).into(), is_stopped: was_stopped(sandbox) }
}

/// One that was stopped on request does not start by itself.
fn was_stopped(sandbox: &Sandbox) -> bool {
    sandbox.details.stop_reason == Some(StopReason::Requested)
}

/// As people know it.
#[must_use]
pub fn signal_name(signal: i32) -> String {
    match signal {
        1 => "SIGHUP".to_owned(),
        2 => "SIGINT".to_owned(),
        15 => "SIGTERM".to_owned(),
        other => format!("signal {other}"),
    }
}

fn counted(conflicts: usize) -> String {
    if conflicts == 1 { "one path is".to_owned() } else { format!("{conflicts} paths are") }
}

/// The first of them; all are in the details.
fn listed<'a>(paths: impl IntoIterator<Item = &'a PathBuf>) -> String {
    const MOST: usize = 5;
    let all: Vec<String> = paths.into_iter().map(|path| path.display().to_string()).collect();
    match all.len().checked_sub(MOST) {
        None | Some(0) => all.join(", "),
        Some(more) => format!("{} and {more} more", all[..MOST].join(", ")),
    }
}

/// More would not help anybody to find theirs.
const MOST_PROJECTS: usize = 5;

fn applied_beneath(projects: &[PathBuf]) -> String {
    let named: Vec<String> = projects.iter().take(MOST_PROJECTS).map(|p| p.display().to_string()).collect();
    match projects.len().saturating_sub(MOST_PROJECTS) {
        _ if named.is_empty() => String::new(),
        0 => format!("; there are applies in {}", named.join(", ")),
        more => format!("; there are applies in {} and {more} more projects", named.join(", ")),
    }
}

fn changed_since(paths: usize) -> String {
    if paths == 1 { "one path changed".to_owned() } else { format!("{paths} paths changed") }
}
