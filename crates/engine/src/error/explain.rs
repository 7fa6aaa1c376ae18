//! How an error is told to programs: its code, the exit code, details, and whether trying again may help.

use whatif_keeper::protocol::Reason;
use whatif_types::Explain;
use whatif_types::explain::{EXIT_CANNOT_EXECUTE, EXIT_CONFLICT, EXIT_FAILED, EXIT_NOT_FOUND, EXIT_USAGE};
use whatif_types::text::Text;

use super::EngineError;
use crate::undo::ChangedPath;

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
            Self::BadDirectory { .. } | Self::NoCurrentDirectory { .. } | Self::PrivateProject { .. } => "bad_directory",
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
            Self::Usage { .. } | Self::NotApproved { .. } | Self::Pattern(_) => "usage",
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

    fn hints(&self) -> Vec<String> {
        self.proposals()
    }

    fn exit_code(&self) -> u8 {
        match self {
            Self::Command(failed) => match failed.reason {
                Reason::NotFound => EXIT_NOT_FOUND,
                Reason::CannotExecute => EXIT_CANNOT_EXECUTE,
                _ => EXIT_FAILED,
            },
            Self::Usage { .. } | Self::NotApproved { .. } | Self::Name(_) | Self::Pattern(_) => EXIT_USAGE,
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
            Self::RanBut { name, code, .. } | Self::WorkGone { name, code, .. } => {
                Some(serde_json::json!({ "ran": true, "exit_code": code, "sandbox": name }))
            }
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
