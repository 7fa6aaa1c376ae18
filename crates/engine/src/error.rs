//! Everything a use case can fail with, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
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
use whatif_types::explain::{EXIT_CANNOT_EXECUTE, EXIT_CONFLICT, EXIT_FAILED, EXIT_NOT_FOUND, EXIT_USAGE, shortage, shortage_of};
use whatif_types::limits::{Means, Resource};
use whatif_types::name::InvalidName;
use whatif_types::sandbox::StopReason;
use whatif_types::text::Text;
use whatif_types::{Backend, Explain, Sandbox};

use crate::apply::{Conflict, MARKERS};
use crate::git_directory::Fault;
use crate::intact::{self, Missing};
use crate::lineage::Owner;
use crate::race::RaceError;
use crate::undo::ChangedPath;

/// So many paths get a hint of their own.
const MOST_NAMED: usize = 5;

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
    #[error("{} is incomplete: {}", owner.described(), intact::in_words(missing))]
    Incomplete {
        owner: Owner,
        missing: Vec<Missing>,
        /// Snapshots of the same sandbox that are all there.
        intact: Vec<String>,
    },
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
    #[error("{message}")]
    Usage { message: String, hint: String },
    #[error("sandbox '{name}' changed since it was looked at (digest {seen}, now {now})")]
    Moved { name: String, seen: String, now: String },
    #[error("{} in conflict with reality: {}", counted(conflicts.len()), listed(conflicts.iter().map(|c| &c.path)))]
    Conflicts {
        name: String,
        conflicts: Vec<Conflict>,
        /// Opens a shell in the sandbox.
        shell: String,
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
    Unfinished { message: String },
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
    #[error("interrupted by {}; nothing was changed", signal_name(*.signal))]
    Cancelled { signal: i32 },
    #[error("failed to {action}: {message}")]
    Git { action: &'static str, message: String, hint: String },
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
        Self::Conflicts { name: sandbox.name.clone(), conflicts, shell: shell_command(sandbox) }
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

impl Explain for EngineError {
    fn code(&self) -> &'static str {
        match self {
            Self::NoSuchSandbox { .. } | Self::NoSandboxHere { .. } | Self::Removed { .. } => "not_found",
            Self::NoSuchSnapshot { .. } | Self::NoSuchPosition { .. } | Self::NoSuchTemplate { .. } => "not_found",
            Self::Ambiguous { .. } | Self::AmbiguousSnapshot { .. } => "ambiguous_name",
            Self::Incomplete { .. } | Self::Behind { .. } => "incomplete",
            Self::NoRoom { .. } => "no_room",
            Self::BadArchive { .. } => "bad_archive",
            Self::OtherProject { .. } => "other_project",
            Self::OtherBackend { .. } => "other_backend",
            Self::Archive(error) => error.code(),
            Self::InUse { .. } => "in_use",
            Self::Restack { .. } | Self::Helper { .. } => "restack_failed",
            Self::Stopped { .. } => "stopped",
            Self::EndedMeanwhile { .. } => "ended_meanwhile",
            Self::Expired { .. } => "expired",
            Self::LimitsUnavailable { .. } => "limits_unavailable",
            Self::ScopeNeeded { .. } => "limits_unavailable",
            Self::Limits(_) => "limits_failed",
            Self::Busy { .. } => "busy",
            Self::StillRunning { .. } => "still_running",
            Self::OtherKeeper { .. } => "other_version",
            Self::Unreachable { .. } => "keeper_unreachable",
            Self::BadDirectory { .. } | Self::NoCurrentDirectory { .. } => "bad_directory",
            Self::ProjectMissing { .. } => "project_missing",
            Self::Config { .. } => "bad_config",
            Self::Boot { .. } => "setup_failed",
            Self::NoBackend { .. } | Self::Backend { .. } => "no_backend",
            Self::NoRules { .. } => "no_network_rules",
            Self::Supervisor { .. } => "no_supervisor",
            Self::Command(failed) => match failed.reason {
                Reason::NotFound => "command_not_found",
                Reason::CannotExecute => "cannot_execute",
                Reason::NoSuchProcess => "no_such_process",
                Reason::File => "file_error",
                Reason::Directory => "bad_directory",
                _ => "refused",
            },
            Self::Usage { .. } | Self::Pattern(_) => "usage",
            Self::Moved { .. } => "changed_meanwhile",
            Self::Conflicts { .. } => "conflict",
            Self::WouldReplace { .. } => "exists",
            Self::NoSuchApply { .. } | Self::NothingToUndo { .. } => "not_found",
            Self::AmbiguousApply { .. } => "ambiguous_name",
            Self::Undone { .. } => "undone",
            Self::ChangedSince { .. } => "changed_since",
            Self::Git { .. } => "git_failed",
            Self::GitAtWork { .. } => "git_at_work",
            Self::Unfinished { .. } => "journal_damaged",
            Self::Unreadable(_) => "unreadable",
            Self::DamagedReview { .. } => "damaged_review",
            Self::CheckFailed { .. } => "check_failed",
            Self::Renamed { .. } => "renamed_directory",
            Self::Apply(error) => error.code(),
            Self::AppliedBut { .. } => "applied_incomplete",
            Self::RanBut { .. } => "run_incomplete",
            Self::Cancelled { .. } => "cancelled",
            Self::Io { .. } | Self::Path(_) | Self::Uncopied(_) => "io_error",
            Self::Store(error) => error.code(),
            Self::Launch(error) => error.code(),
            Self::Provider(error) => error.code(),
            Self::Name(_) => "invalid_name",
            Self::Race(error) => error.code(),
            Self::Keeper(_) => "keeper_unreachable",
        }
    }

    fn hints(&self) -> Vec<String> {
        let is_of_the_machine =
            matches!(self, Self::Keeper(_) | Self::Launch(_) | Self::Store(_) | Self::Helper { .. } | Self::Limits(_));
        if is_of_the_machine && let Some(hint) = shortage(self) {
            return vec![hint];
        }
        match self {
            Self::NoSuchSandbox { name } if name.contains('@') => {
                vec![format!("to work from a snapshot, make a sandbox of it: whatif fork {name}")]
            }
            Self::NoSuchSandbox { .. } | Self::Ambiguous { .. } | Self::Removed { .. } => vec!["'whatif ls' lists the sandboxes".to_owned()],
            Self::Incomplete { owner, intact, .. } => incomplete_hints(owner, intact),
            Self::Behind { .. } => vec!["nothing was done; take up what its directory says: whatif gc --adopt".to_owned()],
            Self::NoSandboxHere { .. } => {
                vec!["name one ('whatif ls' lists them), or make one: whatif run -- COMMAND".to_owned()]
            }
            Self::NoSuchSnapshot { .. } | Self::AmbiguousSnapshot { .. } => {
                vec!["'whatif snapshots NAME' lists them; NAME@LABEL names one of any sandbox, @-1 is the latest".to_owned()]
            }
            Self::NoSuchPosition { .. } => vec!["'whatif ls' lists the sandboxes, 'whatif snapshots NAME' their snapshots".to_owned()],
            Self::InUse { .. } => vec!["let it end first, or have it ended: --live stop".to_owned()],
            Self::NoRoom { .. } => vec!["'whatif gc --dry-run' shows what could go, and 'whatif du' where it is".to_owned()],
            Self::BadArchive { .. } => vec!["nothing was imported; 'whatif import --list FILE' shows what is in it".to_owned()],
            Self::OtherProject { theirs, is_here: true, .. } => vec![format!(
                "nothing was imported; if that directory is the one you mean: whatif import --project {} FILE",
                quoted(theirs)
            )],
            Self::OtherProject { .. } => vec!["nothing was imported; its project must be at the same path here".to_owned()],
            Self::OtherBackend { theirs, .. } => {
                vec![format!("nothing was imported; to use that backend for it: whatif import --backend {theirs} FILE")]
            }
            Self::Archive(error) => error.hints(),
            Self::Race(error) => error.hints(),
            Self::Helper { source } => io_hints(source),
            Self::Restack { errno, .. } => {
                let shortage = errno.and_then(|errno| shortage_of(&io::Error::from_raw_os_error(errno)));
                let nothing_lost = "nothing is lost; 'whatif start' brings the sandbox up again if it was stopped".to_owned();
                shortage.into_iter().chain([nothing_lost]).collect()
            }
            Self::NoSuchTemplate { .. } => vec!["'whatif template ls' lists them; save one: whatif template save NAME TEMPLATE".to_owned()],
            Self::EndedMeanwhile { name, .. } => {
                vec![format!("its changes stay: whatif diff {name}; start it again: whatif start {name}")]
            }
            Self::Stopped { name } => vec![format!("start it again: whatif start {name}")],
            Self::Expired { name } => vec![
                format!("its changes are kept: look at them (whatif diff {name}), keep them (whatif apply {name})"),
                format!("or give it more time: whatif start {name} --ttl 1h"),
            ],
            Self::LimitsUnavailable { fix, .. } => {
                let mut hints: Vec<String> = fix.iter().cloned().collect();
                hints.push("or do without: leave out --require-limits (require = true in the configuration)".to_owned());
                hints
            }
            Self::ScopeNeeded { scope } => vec![format!("start it there: {}", scope.command_line())],
            Self::Limits(_) => vec!["'whatif doctor' says which limits this machine can enforce, and by what".to_owned()],
            Self::Busy { .. } => vec!["try again in a moment".to_owned()],
            Self::StillRunning { name } => vec![format!("stop it first: whatif stop {name}")],
            Self::OtherKeeper { name } => vec![format!("start it again, its changes stay: whatif stop {name}; whatif start {name}")],
            Self::Unreachable { .. } => vec!["'whatif show' has its process; 'whatif rm' ends it and removes the sandbox".to_owned()],
            Self::BadDirectory { .. } => vec!["choose another with --cwd".to_owned()],
            Self::ProjectMissing { name, .. } => {
                vec![format!("put it back and try again, or take files out of the sandbox: whatif cp {name}:PATH DIRECTORY")]
            }
            Self::NoCurrentDirectory { .. } => vec!["go to a directory that exists and try again".to_owned()],
            Self::Config { .. } => vec!["see 'Configuration' in the README for the keys and what a project may set".to_owned()],
            Self::Boot { errno, .. } => boot_hints(*errno),
            Self::Backend { backend: Backend::Fuse, .. } => vec![
                "it needs fuse-overlayfs and a /dev/fuse that is open to you ('ls -l /dev/fuse')".to_owned(),
                "or leave out --backend: whatif takes one that works; 'whatif doctor' tests each of them".to_owned(),
            ],
            Self::NoBackend { .. } | Self::Backend { .. } => vec![
                "overlayfs needs a state directory on ext4, xfs, btrfs or tmpfs: set WHATIF_HOME to one (inside a container, to a volume or /dev/shm)".to_owned(),
                "or install fuse-overlayfs, or choose: --backend copy".to_owned(),
                "'whatif doctor' tests each of them".to_owned(),
            ],
            Self::NoRules { .. } => vec![
                "the kernel needs nf_tables with NAT ('modprobe nf_tables nft_redir', or ask whoever runs the container)".to_owned(),
                "or do without a network: --net none; 'whatif doctor' tests it".to_owned(),
            ],
            Self::Supervisor { .. } => vec!["nothing gets out meanwhile; try again, 'whatif net' shows whether it works".to_owned()],
            Self::Command(failed) if failed.reason == Reason::Directory => vec!["choose another with --cwd".to_owned()],
            Self::Usage { hint, .. } => vec![hint.clone()],
            Self::Pattern(_) => vec!["patterns are written as in .gitignore, and are not empty; quote them for the shell".to_owned()],
            Self::Moved { name, .. } => vec![format!("look again: whatif diff {name}")],
            Self::Conflicts { name, conflicts, shell } => conflict_hints(name, conflicts, shell),
            Self::WouldReplace { .. } => vec![
                "nothing was written. Choose another name, or replace what is there, which cannot be undone: --force".to_owned(),
            ],
            Self::NothingToUndo { beneath } if !beneath.is_empty() => {
                vec!["run it in one of them, or name the apply: 'whatif history' lists those of all projects here".to_owned()]
            }
            Self::NoSuchApply { .. } | Self::AmbiguousApply { .. } | Self::NothingToUndo { .. } => {
                vec!["'whatif history' lists the applies; an undo is undone by its id".to_owned()]
            }
            Self::Undone { by, .. } => vec![format!("to apply it again, undo the undo: whatif undo {by}")],
            Self::ChangedSince { id, changed } => {
                let mut hints = vec![format!(
                    "nothing was written. Undo what was changed since first, or undo all but these: whatif undo {id} --skip PATH"
                )];
                let earlier = changed.iter().filter_map(|c| c.earlier.as_ref().map(|earlier| (&c.path, earlier)));
                hints.extend(earlier.take(MOST_NAMED).map(|(path, earlier)| {
                    format!("what was at {} before is {}", path.display(), earlier.display())
                }));
                hints
            }
            Self::Git { hint, .. } => vec![hint.clone()],
            Self::GitAtWork { lock } => vec![
                "nothing was written. Try again when that git command has ended".to_owned(),
                format!("if none is running there, one was killed and left it behind: rm {}", quoted(lock)),
            ],
            Self::Unreadable(unreadable) if unreadable.is_closed() => vec![format!(
                "what the sandbox did there is not known. If it is meant to be closed, leave it out of an apply: --exclude '{}'",
                unreadable.path.display()
            )],
            Self::Unreadable(unreadable) => {
                let mut hints = io_hints(&unreadable.cause.into());
                hints.push("what the sandbox did there is not known, so nothing was done; its work is still there".to_owned());
                hints
            }
            Self::DamagedReview { name, path } => vec![format!(
                "nothing was applied. Forget all decisions and decide again: rm '{}'; whatif review {name}",
                path.display()
            )],
            Self::Unfinished { .. } => vec!["nothing is applied until that is dealt with".to_owned()],
            Self::Renamed { name, .. } => vec![format!(
                "nothing was written: it would be lost there. Stop the sandbox and try again (whatif stop {name}), or remove it"
            )],
            Self::CheckFailed { .. } => vec!["mend it in the sandbox (whatif exec), or apply without checks: --no-checks".to_owned()],
            Self::Apply(error) => error.hints(),
            Self::AppliedBut { id, .. } => vec![
                "the next command writes down the rest; 'whatif history' lists it then".to_owned(),
                format!("to take it back: whatif undo {id}"),
            ],
            Self::RanBut { name, .. } => vec![format!("the next command settles it; 'whatif show {name}' tells what is there then")],
            Self::Cancelled { .. } => Vec::new(),
            Self::Io { source, .. } if source.kind() == io::ErrorKind::PermissionDenied => {
                vec!["the permissions of that path do not allow it".to_owned()]
            }
            Self::Io { source, .. } => io_hints(source),
            // Whose directory it is.
            Self::Path(error) if error.action == "use" => vec![format!(
                "make it yours alone (chown, chmod go-w {}), or set WHATIF_HOME to a directory that is",
                quoted(&error.path)
            )],
            Self::Path(error) => io_hints(&error.source),
            Self::Uncopied(error) => vec![
                format!("leave it out: --mask {}", quoted(&error.path)),
                "or start in a directory that you can read, or with another backend: only copies need to read all of it".to_owned(),
            ],
            Self::Store(error) => error.hints(),
            Self::Launch(error) => error.hints(),
            Self::Provider(error) => error.hints(),
            Self::Keeper(ClientError::NoAnswer) => vec!["end it with force: whatif stop NAME (its changes stay), or whatif rm NAME".to_owned()],
            Self::Keeper(_) => vec!["'whatif ls' shows its state; 'whatif start' starts it again".to_owned()],
            Self::Command(failed) => match failed.reason {
                Reason::NotFound => vec!["is it installed? For a shell's own words and pipes: whatif run -- sh -c '…'".to_owned()],
                Reason::CannotExecute => vec!["is it executable, and for this machine? Try 'ls -l' and 'file' on it inside".to_owned()],
                Reason::NoSuchProcess => vec!["'whatif ps' lists the processes".to_owned()],
                _ => vec!["'whatif show' tells what the sandbox sees".to_owned()],
            },
            Self::Name(_) => vec!["choose another, or leave it out where one can be made up".to_owned()],
        }
    }

    fn exit_code(&self) -> u8 {
        match self {
            Self::Command(failed) => match failed.reason {
                Reason::NotFound => EXIT_NOT_FOUND,
                Reason::CannotExecute => EXIT_CANNOT_EXECUTE,
                _ => EXIT_FAILED,
            },
            Self::Usage { .. } | Self::Name(_) | Self::Pattern(_) => EXIT_USAGE,
            Self::Conflicts { .. } | Self::ChangedSince { .. } | Self::CheckFailed { .. } => EXIT_CONFLICT,
            Self::WouldReplace { .. } => EXIT_CONFLICT,
            Self::Cancelled { signal } => u8::try_from(128 + signal).unwrap_or(EXIT_FAILED),
            Self::Provider(error) => error.exit_code(),
            Self::Race(error) => error.exit_code(),
            _ => EXIT_FAILED,
        }
    }

    fn details(&self) -> Option<serde_json::Value> {
        match self {
            Self::Conflicts { conflicts, .. } => serde_json::to_value(conflicts).ok(),
            Self::ChangedSince { changed, .. } => {
                let earlier = |c: &ChangedPath| c.earlier.as_ref().map(Text::from);
                let one = |c: &ChangedPath| serde_json::json!({ "path": Text::from(&c.path), "why": c.why, "earlier": earlier(c) });
                Some(changed.iter().map(one).collect())
            }
            Self::WouldReplace { paths } => {
                Some(paths.iter().map(|path| serde_json::json!({ "path": Text::from(path) })).collect())
            }
            Self::Incomplete { missing, .. } => serde_json::to_value(missing).ok(),
            Self::AppliedBut { id, is_undo, .. } => {
                Some(serde_json::json!({ "applied": true, "id": id, "is_undo": is_undo, "undo": format!("whatif undo {id}") }))
            }
            Self::EndedMeanwhile { name, has_run: true } | Self::Removed { name, has_run: true } => {
                Some(serde_json::json!({ "ran": true, "sandbox": name }))
            }
            Self::RanBut { name, code, .. } => Some(serde_json::json!({ "ran": true, "exit_code": code, "sandbox": name })),
            Self::Race(error) => error.details(),
            _ => None,
        }
    }

    fn retryable(&self) -> bool {
        match self {
            Self::Busy { .. } | Self::Cancelled { .. } | Self::GitAtWork { .. } => true,
            Self::Store(error) => error.retryable(),
            Self::Apply(error) => error.retryable(),
            Self::Race(error) => error.retryable(),
            _ => false,
        }
    }
}

/// As a shell takes it for one word.
fn quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    let is_plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "/._-+@".contains(c));
    if is_plain { text.into_owned() } else { format!("'{}'", text.replace('\'', r"'\''")) }
}

fn incomplete_hints(owner: &Owner, intact: &[String]) -> Vec<String> {
    let mut hints =
        vec!["nothing was done; if it was moved or deleted by mistake, put it back or restore it from a backup".to_owned()];
    hints.extend(intact.first().map(|snapshot| format!("{snapshot} is intact; go on from there: whatif fork {snapshot}")));
    hints.push(match owner {
        Owner::Sandbox(name) => format!("to give up what is left: whatif rm {name}"),
        Owner::Snapshot(name) => format!("to give it up: whatif snapshot rm {name}"),
        Owner::Template(name) => format!("to give it up: whatif template rm {name}"),
    });
    hints
}

/// What can be done about conflicts depends on their kind: markers are removed in the sandbox, and a rebase helps only where text
/// collides.
fn conflict_hints(name: &str, conflicts: &[Conflict], shell: &str) -> Vec<String> {
    let (marked, others): (Vec<&Conflict>, Vec<&Conflict>) = conflicts.iter().partition(|c| c.why == MARKERS);
    let (in_git, others): (Vec<&Conflict>, Vec<&Conflict>) = others.into_iter().partition(|c| Fault::says(c.why));
    let mut hints = Vec::new();
    if !others.is_empty() {
        hints.push("nothing was written. For each path choose: --theirs PATH (the sandbox's), --ours PATH (reality's), --skip PATH (later)".to_owned());
    }
    if !in_git.is_empty() {
        let which = if others.is_empty() { "nothing was written. Choose" } else { "for branches and the like of git's, choose" };
        hints.push(format!("{which}: --ours PATH (reality's), --skip PATH (later); or settle it with git first"));
    }
    if others.iter().any(|c| c.can_be_marked()) {
        hints.push(format!("or bring the sandbox up to date first: whatif rebase {name}"));
    }
    if !marked.is_empty() {
        let which =
            if others.is_empty() { "nothing was written. Edit".to_owned() } else { "in those with markers, edit".to_owned() };
        hints.push(format!("{which} the lines between '<<<<<<<' and '>>>>>>>' in the sandbox and remove the markers: {shell}"));
        hints.push("or choose for these: --ours PATH (reality's), --skip PATH (later)".to_owned());
    }
    hints
}

/// Opens a shell in a sandbox. One that was stopped on request does not start by itself.
#[must_use]
pub fn shell_command(sandbox: &Sandbox) -> String {
    let name = &sandbox.name;
    match sandbox.details.stop_reason {
        Some(StopReason::Requested) => format!("whatif start {name} && whatif shell {name}"),
        _ => format!("whatif shell {name}"),
    }
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

fn boot_hints(errno: i32) -> Vec<String> {
    if let Some(hint) = shortage_of(&io::Error::from_raw_os_error(errno)) {
        return vec![hint];
    }
    let mut hints = Vec::new();
    if errno == rustix::io::Errno::PERM.raw_os_error() || errno == rustix::io::Errno::ACCESS.raw_os_error() {
        hints.push("the kernel or a security module forbids it; in a container, more rights may be needed".to_owned());
    }
    hints.push("'whatif doctor' tests each thing a sandbox needs and says how to fix what is missing".to_owned());
    hints
}

fn io_hints(error: &io::Error) -> Vec<String> {
    if let Some(hint) = shortage_of(error) {
        return vec![hint];
    }
    match error.kind() {
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => {
            vec!["the state directory must be writable: set WHATIF_HOME to one that is".to_owned()]
        }
        io::ErrorKind::IsADirectory => vec!["that is a directory; name a file".to_owned()],
        io::ErrorKind::NotFound => vec!["there is no such file or directory; 'ls' its directory to see what there is".to_owned()],
        io::ErrorKind::StaleNetworkFileHandle => vec!["it changed while it was looked at; try again".to_owned()],
        _ => match Errno::from_io_error(error) {
            Some(Errno::IO) => vec!["the disk or its file system reports an error; 'dmesg' may say more".to_owned()],
            _ => Vec::new(),
        },
    }
}
