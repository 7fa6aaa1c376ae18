//! What can go wrong between a sandbox's changes and reality: diffing, deciding, applying, undoing.

mod remedies;

use std::io;
use std::path::PathBuf;

use whatif_apply::ApplyError;
use whatif_diff::pattern::BadPattern;
use whatif_types::explain::kind_of;
use whatif_types::remedy::{Call, Choice, Sentence, Value};
use whatif_types::sandbox::StopReason;
use whatif_types::text::Text;
use whatif_types::{Explain, Kind, Remedy, Sandbox, remedy};

use crate::EngineError;
use crate::ground::error::listed;
use crate::merge::Conflict;

#[derive(Debug, thiserror::Error)]
pub enum ChangesError {
    #[error("'..' alone compares reality with itself")]
    ComparesReality,
    #[error("the sandbox changed nothing that fits '{pattern}'")]
    NothingFits {
        pattern: String,
        /// As it was named; the latest of the project otherwise.
        sandbox: Option<String>,
    },
    #[error("no package called '{name}' was installed or removed in the sandbox{}", other_packages(known))]
    NoSuchPackage { name: String, known: Vec<String> },
    #[error("'{path}' has no hunks to choose from")]
    NoHunks { path: String },
    #[error("'{path}' has {count} hunk{}, there is no hunk {number}", if *.count == 1 { "" } else { "s" })]
    NoSuchHunk { path: String, count: usize, number: usize, sandbox: Option<String> },
    #[error(transparent)]
    Pattern(#[from] BadPattern),
    #[error("what was decided about '{name}' cannot be read: {} is damaged", path.display())]
    DamagedReview { name: String, path: PathBuf },

    #[error("no terminal to confirm on, and nothing was approved")]
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
    #[error("check '{name}' failed on the merged result ({why}); nothing was applied")]
    CheckFailed { name: String, why: String },
    #[error("sandbox '{name}' shows {} through a directory it renamed, and it could not be copied there", path.display())]
    Renamed {
        name: String,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error(transparent)]
    Apply(#[from] ApplyError),
    #[error("{message}")]
    Unfinished { message: Sentence },
    /// Reality has changed, and stays so.
    #[error("{}, but not everything about it could be written down", if *is_undo { format!("everything is restored (undo {id})") } else { format!("the changes are applied (apply {id})") })]
    AppliedBut { id: String, is_undo: bool, source: Box<EngineError> },
    #[error("interrupted by {}; nothing was changed", signal_name(*.signal))]
    Cancelled { signal: i32 },

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
    #[error("{} since apply {id}: {}", changed_since(changed.len()), some_changed(changed))]
    ChangedSince { id: String, changed: Vec<ChangedPath> },
    #[error("apply {id} changed nothing that fits '{pattern}'")]
    NothingToSkip { id: String, pattern: String },
    #[error("{} is to be settled both ways", path.display())]
    SettledTwice { path: PathBuf },
    #[error("all that apply {id} changed is to be skipped")]
    SkipsEverything { id: String },
}

/// A path that is not any more as an apply left it.
#[derive(Clone, Debug)]
pub struct ChangedPath {
    pub path: PathBuf,
    /// Follows the path.
    pub why: String,
    /// What was there before the apply, if that is kept.
    pub earlier: Option<PathBuf>,
}

impl ChangesError {
    #[must_use]
    pub fn conflicts(sandbox: &Sandbox, conflicts: Vec<Conflict>) -> Self {
        Self::Conflicts { name: sandbox.name.clone(), conflicts, is_stopped: was_stopped(sandbox) }
    }
}

impl Explain for ChangesError {
    fn code(&self) -> &'static str {
        match self {
            Self::ComparesReality => "nothing_to_compare",
            Self::NothingFits { .. } | Self::NothingToSkip { .. } | Self::NoSuchPackage { .. } => "no_match",
            Self::NoHunks { .. } | Self::NoSuchHunk { .. } => "no_such_hunk",
            Self::SkipsEverything { .. } => "skips_everything",
            Self::NotApproved { .. } => "needs_approval",
            Self::Pattern(_) => "invalid_pattern",
            Self::SettledTwice { .. } => "settled_twice",
            Self::DamagedReview { .. } => "damaged_review",
            Self::Moved { .. } => "changed_meanwhile",
            Self::Conflicts { .. } => "conflict",
            Self::CheckFailed { .. } => "check_failed",
            Self::Renamed { .. } => "renamed_directory",
            Self::Apply(error) => error.code(),
            Self::Unfinished { .. } => "journal_damaged",
            Self::AppliedBut { .. } => "applied_incomplete",
            Self::Cancelled { .. } => "cancelled",
            Self::NoSuchApply { .. } | Self::NothingToUndo { .. } => "not_found",
            Self::AmbiguousApply { .. } => "ambiguous_name",
            Self::Undone { .. } => "undone",
            Self::ChangedSince { .. } => "changed_since",
        }
    }

    fn kind(&self) -> Kind {
        match self {
            Self::NothingFits { .. } | Self::NoSuchPackage { .. } | Self::NoSuchHunk { .. } => Kind::NotFound,
            Self::NoSuchApply { .. } | Self::NothingToUndo { .. } => Kind::NotFound,
            Self::ComparesReality | Self::NoHunks { .. } | Self::Pattern(_) => Kind::Invalid,
            Self::NothingToSkip { .. } | Self::SkipsEverything { .. } | Self::AmbiguousApply { .. } => Kind::Invalid,
            Self::SettledTwice { .. } => Kind::Invalid,
            Self::Moved { .. } | Self::Conflicts { .. } | Self::CheckFailed { .. } => Kind::Conflict,
            Self::Undone { .. } | Self::ChangedSince { .. } => Kind::Conflict,
            Self::NotApproved { .. } => Kind::Forbidden,
            Self::Cancelled { .. } => Kind::Unavailable,
            Self::DamagedReview { .. } | Self::Unfinished { .. } | Self::AppliedBut { .. } => Kind::Internal,
            Self::Renamed { source, .. } => kind_of(source),
            Self::Apply(error) => error.kind(),
        }
    }

    fn remedies(&self) -> Vec<Remedy> {
        self.proposals()
    }

    fn wording(&self) -> Option<Sentence> {
        match self {
            Self::SkipsEverything { id } => {
                Some(remedy![Choice::Skip(Value::Unsaid), format!(" names all that apply {id} changed")])
            }
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
            Self::AppliedBut { id, is_undo, .. } => Some(serde_json::json!({ "applied": true, "id": id, "is_undo": is_undo })),
            Self::Cancelled { signal } => Some(serde_json::json!({ "signal": signal })),
            _ => None,
        }
    }

    fn retryable(&self) -> bool {
        match self {
            Self::Cancelled { .. } => true,
            Self::Apply(error) => error.retryable(),
            _ => false,
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

fn other_packages(known: &[String]) -> String {
    let named: Vec<&str> = known.iter().take(MOST_PROJECTS).map(String::as_str).collect();
    match known.len().saturating_sub(MOST_PROJECTS) {
        _ if named.is_empty() => String::new(),
        0 => format!(", only {}", named.join(", ")),
        more => format!(", only {} and {more} more", named.join(", ")),
    }
}

/// `details` has all of them.
fn some_changed(changed: &[ChangedPath]) -> String {
    const MOST: usize = 10;
    let named: Vec<String> = changed.iter().take(MOST).map(|c| format!("{} {}", c.path.display(), c.why)).collect();
    let more = changed.len() - named.len();
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    format!("{}{more}", named.join("; "))
}

fn changed_since(paths: usize) -> String {
    if paths == 1 { "one path changed".to_owned() } else { format!("{paths} paths changed") }
}
