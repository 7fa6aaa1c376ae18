//! How an error is told to programs: its code, its kind, details, and whether trying again may help.

use std::io;

use whatif_keeper::protocol::{Failed, Reason};
use whatif_types::explain::kind_of;
use whatif_types::remedy::Sentence;
use whatif_types::text::Text;
use whatif_types::{Explain, Kind, Remedy};

use crate::EngineError;
use crate::error::ChangedPath;

impl Explain for EngineError {
    fn code(&self) -> &'static str {
        match self {
            Self::NoSuchSandbox { .. } | Self::NoSandboxHere { .. } | Self::Removed { .. } => "not_found",
            Self::NoSuchSnapshot { .. } | Self::NoSuchPosition { .. } | Self::NoSuchTemplate { .. } => "not_found",
            Self::Ambiguous { .. } | Self::AmbiguousSnapshot { .. } => "ambiguous_name",
            Self::Incomplete { .. } | Self::Behind { .. } | Self::StrayHead { .. } => "incomplete",
            Self::Unmounted { .. } => "unmounted",
            Self::MountsChanged { .. } | Self::MountedOver { .. } => "mounts_changed",
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
            Self::BadDirectory { .. }
            | Self::NoCurrentDirectory { .. }
            | Self::PrivateProject { .. }
            | Self::CoarseTimes { .. } => "bad_directory",
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
            Self::NoSuchProcess { .. } => "no_such_process",
            Self::EndUnknown { .. } => "end_unknown",
            Self::Misuse(error) => error.code(),
            Self::NetworkMisuse(error) => error.code(),
            Self::NotApproved { .. } | Self::Pattern(_) => "usage",
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
            Self::RanBut { .. } | Self::WorkGone { .. } => "run_incomplete",
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

    fn kind(&self) -> Kind {
        match self {
            Self::NoSuchSandbox { .. } | Self::NoSandboxHere { .. } | Self::Removed { .. } => Kind::NotFound,
            Self::NoSuchSnapshot { .. } | Self::NoSuchPosition { .. } | Self::NoSuchTemplate { .. } => Kind::NotFound,
            Self::NoSuchProcess { .. } | Self::NoSuchApply { .. } | Self::NothingToUndo { .. } => Kind::NotFound,
            Self::ProjectMissing { .. } => Kind::NotFound,
            Self::Ambiguous { .. } | Self::AmbiguousSnapshot { .. } | Self::AmbiguousApply { .. } => Kind::Invalid,
            Self::BadArchive { .. } | Self::Config { .. } | Self::Pattern(_) | Self::Name(_) => Kind::Invalid,
            Self::BadDirectory { .. }
            | Self::NoCurrentDirectory { .. }
            | Self::PrivateProject { .. }
            | Self::CoarseTimes { .. } => Kind::Invalid,
            Self::Unmounted { .. } | Self::MountsChanged { .. } | Self::MountedOver { .. } => Kind::Conflict,
            Self::OtherProject { .. } | Self::OtherBackend { .. } | Self::InUse { .. } => Kind::Conflict,
            Self::Stopped { .. } | Self::EndedMeanwhile { .. } | Self::StillRunning { .. } => Kind::Conflict,
            Self::Moved { .. } | Self::Conflicts { .. } | Self::WouldReplace { .. } | Self::CheckFailed { .. } => Kind::Conflict,
            Self::Undone { .. } | Self::ChangedSince { .. } | Self::Git { .. } => Kind::Conflict,
            Self::NotApproved { .. } => Kind::Forbidden,
            Self::NoRoom { .. } | Self::Expired { .. } => Kind::Exhausted,
            Self::LimitsUnavailable { .. } | Self::ScopeNeeded { .. } => Kind::Unavailable,
            Self::Busy { .. } | Self::GitAtWork { .. } | Self::Cancelled { .. } => Kind::Unavailable,
            Self::Unreachable { .. } | Self::Keeper(_) | Self::Supervisor { .. } => Kind::Unavailable,
            Self::EndUnknown { .. } | Self::OtherKeeper { .. } => Kind::Unavailable,
            Self::NoRules { .. } | Self::NoBackend { .. } | Self::Backend { .. } => Kind::Unavailable,
            Self::Incomplete { .. } | Self::Behind { .. } | Self::StrayHead { .. } => Kind::Internal,
            Self::Unfinished { .. } | Self::DamagedReview { .. } => Kind::Internal,
            Self::AppliedBut { .. } | Self::RanBut { .. } | Self::WorkGone { .. } => Kind::Internal,
            Self::Restack { errno, .. } => errno.map_or(Kind::Internal, |errno| kind_of(&io::Error::from_raw_os_error(errno))),
            Self::Boot { errno, .. } => kind_of(&io::Error::from_raw_os_error(*errno)),
            Self::Helper { source } | Self::Renamed { source, .. } | Self::Io { source, .. } => kind_of(source),
            Self::Path(error) | Self::Uncopied(error) => kind_of(&error.source),
            Self::Unreadable(unreadable) => kind_of(&unreadable.cause.into()),
            Self::Command(failed) => kind_of_command(failed),
            Self::Misuse(error) => error.kind(),
            Self::NetworkMisuse(error) => error.kind(),
            Self::Archive(error) => error.kind(),
            Self::Limits(error) => error.kind(),
            Self::Apply(error) => error.kind(),
            Self::Store(error) => error.kind(),
            Self::Launch(error) => error.kind(),
            Self::Provider(error) => error.kind(),
            Self::Race(error) => error.kind(),
        }
    }

    fn remedies(&self) -> Vec<Remedy> {
        self.proposals()
    }

    fn wording(&self) -> Option<Sentence> {
        match self {
            Self::Misuse(error) => error.wording(),
            Self::NetworkMisuse(error) => error.wording(),
            Self::Race(error) => error.wording(),
            Self::Unfinished { message } => Some(message.clone()),
            _ => None,
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
            Self::AppliedBut { id, is_undo, .. } => Some(serde_json::json!({ "applied": true, "id": id, "is_undo": is_undo })),
            Self::EndedMeanwhile { name, has_run: true } | Self::Removed { name, has_run: true } => {
                Some(serde_json::json!({ "ran": true, "sandbox": name }))
            }
            Self::RanBut { name, code, .. } | Self::WorkGone { name, code, .. } => {
                Some(serde_json::json!({ "ran": true, "exit_code": code, "sandbox": name }))
            }
            Self::Cancelled { signal } => Some(serde_json::json!({ "signal": signal })),
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

fn kind_of_command(failed: &Failed) -> Kind {
    match failed.reason {
        Reason::NotFound | Reason::NoSuchProcess => Kind::NotFound,
        Reason::Directory => Kind::Invalid,
        Reason::Ending | Reason::Supervised => Kind::Unavailable,
        _ => kind_of(&io::Error::from_raw_os_error(failed.errno)),
    }
}
