//! What can go wrong with making, running, entering and ending sandboxes.

mod file;
mod recut;
mod remedies;

use std::io;
use std::path::PathBuf;

use whatif_keeper::protocol::{Failed, Reason};
use whatif_layers::PathError;
use whatif_provider::{LaunchError, RestackError};
use whatif_types::explain::kind_of;
use whatif_types::remedy::{Choice, Sentence, Value};
use whatif_types::text::Text;
use whatif_types::{Backend, Chosen, CommandId, Explain, Kind, Remedy, remedy};

pub use self::file::{FileError, FileProblem};
pub use self::recut::Recut;
use crate::EngineError;
use crate::devices::DeviceError;
use crate::ground::error::listed;
use crate::owner::Owner;

#[derive(Debug, thiserror::Error)]
pub enum LifecycleError {
    #[error("template '{template}' was made for {}", project.display())]
    TemplateElsewhere { template: String, project: PathBuf },
    #[error("the whole file system or home cannot be masked")]
    MaskOfEverything,
    #[error("{} cannot be used from inside: the directory does not exist or cannot be entered", path.display())]
    BadDirectory { path: PathBuf },
    #[error("{} cannot be a project: a sandbox has its own and does not see the real one", .path.display())]
    PrivateProject { path: PathBuf },
    #[error("{} is on a file system that keeps times in whole seconds: two changes within a second could not be told apart", .path.display())]
    CoarseTimes { path: PathBuf },
    #[error("the project cannot be copied")]
    Uncopied(#[source] PathError),

    #[error(transparent)]
    Launch(#[from] LaunchError),
    #[error("the sandbox could not be set up: {message}")]
    Boot { message: String, errno: i32 },
    #[error("no copy-on-write backend works here: {}", reasons.join("; "))]
    NoBackend { reasons: Vec<String> },
    #[error("the layers cannot be mounted with backend '{backend}': {message}")]
    Backend { backend: Backend, message: String },
    #[error("{} cannot be mounted again: {how}", owner.described())]
    MountsChanged { owner: Owner, how: Recut },
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

    #[error("sandbox '{name}' is in use: {because}")]
    InUse { name: String, because: String },
    #[error("sandbox '{name}' is of version {now}, not of {seen}")]
    VersionChanged { name: String, seen: u64, now: u64 },
    #[error("sandbox '{name}' is still running")]
    StillRunning { name: String },
    #[error("the time of sandbox '{name}' is up")]
    Expired { name: String },
    #[error("the sandbox in {} is still running, but whatif cannot connect to it", directory.display())]
    Unreachable { directory: PathBuf },

    #[error("{}", .0.message)]
    Command(Failed),
    /// The same where the sandbox was there before the command.
    #[error("{}", failed.message)]
    NotFoundIn { name: String, failed: Failed },
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error("there is no {chosen} in sandbox '{name}'")]
    NoSuchProcess { name: String, chosen: Chosen },
    #[error("it is not known how command {id} of sandbox '{name}' ended: the sandbox was killed")]
    EndUnknown { name: String, id: CommandId },
    #[error("sandbox '{sandbox}' has no log{}", chosen.map_or_else(|| "s".to_owned(), |chosen| format!(" of a {chosen}")))]
    NoLog { sandbox: String, chosen: Option<Chosen> },
    #[error("sandbox '{sandbox}' has no {} to attach to", chosen.map_or_else(|| "command".to_owned(), |chosen| chosen.to_string()))]
    NothingToAttachTo { sandbox: String, chosen: Option<Chosen> },
    #[error("command {id} has written {end} bytes so far, so its output has no offset {from}")]
    BeyondOutput { id: CommandId, end: u64, from: u64 },
    /// Running the command again would do its work twice.
    #[error("the command ran (exit code {code}), but the state of sandbox '{name}' could not be recorded")]
    RanBut { name: String, code: i32, source: Box<EngineError> },
    #[error("the command ran (exit code {code}), but its changes are gone")]
    WorkGone { name: String, code: i32, source: Box<EngineError> },
    #[error("{} {} already", listed(paths), if paths.len() == 1 { "exists" } else { "exist" })]
    WouldReplace { paths: Vec<PathBuf> },
}

impl LifecycleError {
    /// Whether it may come of the sandbox being removed at this moment.
    pub(crate) fn is_of_what_is_there(&self) -> bool {
        matches!(self, Self::Restack { .. } | Self::Helper { .. } | Self::Boot { .. } | Self::Launch(_))
    }

    /// What a keeper refused to do.
    pub(crate) fn refused(failed: Failed) -> Self {
        match failed.reason {
            Reason::Boot => Self::Boot { message: failed.message, errno: failed.errno },
            _ => Self::Command(failed),
        }
    }
}

impl From<RestackError> for LifecycleError {
    fn from(error: RestackError) -> Self {
        Self::Restack { message: error.message, errno: error.errno }
    }
}

impl Explain for LifecycleError {
    fn code(&self) -> &'static str {
        match self {
            Self::TemplateElsewhere { .. } => "template_of_other_project",
            Self::MaskOfEverything => "invalid_mask",
            Self::NoLog { .. } => "no_logs",
            Self::NothingToAttachTo { .. } => "nothing_to_attach_to",
            Self::BeyondOutput { .. } => "invalid_offset",
            Self::BadDirectory { .. } | Self::PrivateProject { .. } | Self::CoarseTimes { .. } => "bad_directory",
            Self::Uncopied(_) => "io_error",
            Self::Launch(error) => error.code(),
            Self::Boot { .. } => "setup_failed",
            Self::NoBackend { .. } | Self::Backend { .. } => "no_backend",
            Self::MountsChanged { .. } => "mounts_changed",
            Self::Restack { .. } | Self::Helper { .. } => "restack_failed",
            Self::InUse { .. } => "in_use",
            Self::VersionChanged { .. } => "version_changed",
            Self::StillRunning { .. } => "still_running",
            Self::Expired { .. } => "expired",
            Self::Unreachable { .. } => "keeper_unreachable",
            Self::Command(failed) => match failed.reason {
                Reason::NotFound => "command_not_found",
                Reason::CannotExecute => "cannot_execute",
                Reason::NoSuchProcess => "no_such_process",
                Reason::File => "file_error",
                Reason::Directory => "bad_directory",
                _ => "refused",
            },
            Self::NotFoundIn { .. } => "command_not_found",
            Self::File(error) => error.code(),
            Self::Device(error) => error.code(),
            Self::NoSuchProcess { .. } => "no_such_process",
            Self::EndUnknown { .. } => "end_unknown",
            Self::RanBut { .. } | Self::WorkGone { .. } => "run_incomplete",
            Self::WouldReplace { .. } => "exists",
        }
    }

    fn kind(&self) -> Kind {
        match self {
            Self::NoSuchProcess { .. } | Self::NoLog { .. } | Self::NothingToAttachTo { .. } => Kind::NotFound,
            Self::MaskOfEverything | Self::BeyondOutput { .. } => Kind::Invalid,
            Self::BadDirectory { .. } | Self::PrivateProject { .. } | Self::CoarseTimes { .. } => Kind::Invalid,
            Self::TemplateElsewhere { .. } | Self::MountsChanged { .. } | Self::InUse { .. } => Kind::Conflict,
            Self::StillRunning { .. } | Self::WouldReplace { .. } | Self::VersionChanged { .. } => Kind::Conflict,
            Self::Expired { .. } => Kind::Exhausted,
            Self::Unreachable { .. } | Self::EndUnknown { .. } => Kind::Unavailable,
            Self::NoBackend { .. } | Self::Backend { .. } => Kind::Unavailable,
            Self::RanBut { .. } | Self::WorkGone { .. } => Kind::Internal,
            Self::Restack { errno, .. } => errno.map_or(Kind::Internal, |errno| kind_of(&io::Error::from_raw_os_error(errno))),
            Self::Boot { errno, .. } => kind_of(&io::Error::from_raw_os_error(*errno)),
            Self::Helper { source } => kind_of(source),
            Self::Uncopied(error) => kind_of(&error.source),
            Self::Command(failed) | Self::NotFoundIn { failed, .. } => kind_of_command(failed),
            Self::Launch(error) => error.kind(),
            Self::File(error) => error.kind(),
            Self::Device(error) => error.kind(),
        }
    }

    fn remedies(&self) -> Vec<Remedy> {
        self.proposals()
    }

    fn wording(&self) -> Option<Sentence> {
        match self {
            Self::MaskOfEverything => Some(remedy![Choice::Mask(Value::Unsaid), " cannot hide the whole file system or home"]),
            _ => None,
        }
    }

    fn details(&self) -> Option<serde_json::Value> {
        match self {
            Self::WouldReplace { paths } => {
                Some(paths.iter().map(|path| serde_json::json!({ "path": Text::from(path) })).collect())
            }
            Self::VersionChanged { now, .. } => Some(serde_json::json!({ "version": now })),
            Self::RanBut { name, code, .. } | Self::WorkGone { name, code, .. } => {
                Some(serde_json::json!({ "ran": true, "exit_code": code, "sandbox": name }))
            }
            _ => None,
        }
    }

    fn retryable(&self) -> bool {
        matches!(self, Self::File(error) if error.retryable())
    }
}

fn kind_of_command(failed: &Failed) -> Kind {
    match failed.reason {
        Reason::NotFound | Reason::NoSuchProcess => Kind::NotFound,
        Reason::Directory => Kind::Invalid,
        Reason::Ending | Reason::Supervised => Kind::Unavailable,
        _ => kind_of(&io::Error::from_raw_os_error(failed.errno)),
    }
}
