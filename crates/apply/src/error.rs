//! What an apply can fail with.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use whatif_types::explain::{kind_of, shortage_of, shortage_of_processes};
use whatif_types::remedy::{Call, Mention, Value};
use whatif_types::{Explain, Kind, Remedy, remedy};

#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    #[error("another apply is at work in {}", root.display())]
    Busy { root: PathBuf },
    #[error("{}", summary(.0))]
    Problems(Vec<Problem>),
    /// Everything is as it was.
    #[error("{} {why}; nothing was changed", path.display())]
    Changed { path: PathBuf, why: String },
    /// Everything is as it was.
    #[error("failed to {action} {}; nothing was changed", path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    /// Everything of ours was put back, but somebody else changed something meanwhile, and theirs was kept.
    #[error("{why}")]
    PutBack { path: PathBuf, why: String, reported: Vec<(PathBuf, String)> },
    /// The caller wanted it to stop. Everything is as it was.
    #[error("cancelled; nothing was changed")]
    Cancelled,
    /// What belongs to it outside of its roots did not come about. Everything is as it was.
    #[error("{why}; nothing was changed")]
    Refused { why: String },
    /// Everything is real, but the rest of the work is not done; `recover` has to finish it.
    #[error("everything is applied, but not everything could be put in order: {why}")]
    Unsettled { why: String },
    /// Neither done nor undone; `recover` has to finish it.
    #[error("the apply was interrupted: {why}")]
    Interrupted {
        /// Names the paths that cannot be reached, too.
        why: String,
        /// Paths that recovery has to wait for, since their directory is not there or another one is; mostly none.
        unreachable: Vec<PathBuf>,
    },
    /// Nothing was touched.
    #[error("the journal in {} cannot be relied on: {why}", directory.display())]
    Journal { directory: PathBuf, why: String },
    /// Nothing was touched.
    #[error("{} is not the directory that the interrupted apply worked in", root.display())]
    RootGone { root: PathBuf, directory: PathBuf },
}

impl ApplyError {
    /// All names are swapped; recovery does the rest.
    pub(crate) fn unsettled(fault: Fault) -> Self {
        Self::Unsettled { why: fault.to_string() }
    }

    /// Recovery can go on where this stopped.
    pub(crate) fn interrupted(fault: Fault) -> Self {
        Self::Interrupted { why: fault.to_string(), unreachable: Vec::new() }
    }

    /// Recovery can go on when these paths can be reached again. What there is to report is told now: it will not be seen again.
    pub(crate) fn out_of_reach(before: &str, unreachable: BTreeMap<PathBuf, &'static str>, reported: &[(PathBuf, String)]) -> Self {
        let mut why = before.to_owned();
        let told = unreachable.iter().map(|(path, what)| (path, *what));
        for (path, what) in told.chain(reported.iter().map(|(path, what)| (path, what.as_str()))) {
            why.push_str(if why.is_empty() { "" } else { "; " });
            why.push_str(&format!("{} {what}", path.display()));
        }
        Self::Interrupted { why, unreachable: unreachable.into_keys().collect() }
    }
}

/// What there is to do when something is not what was looked at any more.
pub(crate) fn look_again() -> Remedy {
    remedy!["look at the changes again with ", Mention(Call::diff(Value::Unsaid)), ", then apply what you want of them"]
}

/// One thing that stands against a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    pub path: PathBuf,
    /// Follows the path, as in "/etc/hosts: is read-only".
    pub what: String,
    /// What to do about it; may be empty.
    pub remedy: Remedy,
}

impl Problem {
    pub(crate) fn new(path: impl Into<PathBuf>, what: impl Into<String>, remedy: impl Into<Remedy>) -> Self {
        Self { path: path.into(), what: what.into(), remedy: remedy.into() }
    }
}

fn summary(problems: &[Problem]) -> String {
    match problems {
        [] => "the plan cannot be applied".to_owned(),
        [one] => format!("{}: {}", one.path.display(), one.what),
        [first, _] => format!("{}: {}, and 1 more problem", first.path.display(), first.what),
        [first, rest @ ..] => format!("{}: {}, and {} more problems", first.path.display(), first.what, rest.len()),
    }
}

impl Explain for ApplyError {
    fn code(&self) -> &'static str {
        match self {
            Self::Busy { .. } => "busy",
            Self::Problems(_) => "cannot_apply",
            Self::Changed { .. } | Self::PutBack { .. } => "changed_meanwhile",
            Self::Io { .. } => "io_error",
            Self::Cancelled => "cancelled",
            Self::Refused { .. } => "refused",
            Self::Interrupted { .. } | Self::Unsettled { .. } => "interrupted",
            Self::Journal { .. } | Self::RootGone { .. } => "journal_damaged",
        }
    }

    fn kind(&self) -> Kind {
        match self {
            Self::Busy { .. } | Self::Cancelled | Self::RootGone { .. } => Kind::Unavailable,
            Self::Problems(_) | Self::Changed { .. } | Self::PutBack { .. } | Self::Refused { .. } => Kind::Conflict,
            Self::Io { source, .. } => kind_of(source),
            Self::Interrupted { .. } | Self::Unsettled { .. } | Self::Journal { .. } => Kind::Internal,
        }
    }

    fn remedies(&self) -> Vec<Remedy> {
        match self {
            Self::Problems(problems) => {
                let mut remedies: Vec<Remedy> = problems.iter().map(|p| p.remedy.clone()).filter(|r| !r.is_empty()).collect();
                remedies.sort();
                remedies.dedup();
                remedies
            }
            Self::Interrupted { unreachable, .. } if !unreachable.is_empty() => {
                vec!["put the directories back in their place; the next command finishes it then".into()]
            }
            Self::Interrupted { .. } | Self::Unsettled { .. } => vec!["the next command finishes it".into()],
            Self::Busy { .. } => vec!["nothing was changed; try again when it has ended".into()],
            Self::Journal { directory, .. } => vec![
                format!(
                    "nothing was touched; temporary files are called '.whatif-*', earlier versions lie in {}",
                    directory.join("old").display()
                )
                .into(),
            ],
            Self::RootGone { directory, .. } => {
                vec![format!("mount it again, or give the apply up by moving {} away", directory.display()).into()]
            }
            Self::Changed { .. } => vec![look_again()],
            Self::Io { source, .. } if source.kind() == io::ErrorKind::StorageFull => {
                vec!["make room and try again; 'df' and 'df -i' tell whether bytes or files are short".into()]
            }
            // That is done by a thread.
            Self::Io { action: "wait for", source, .. } => shortage_of_processes(source).into_iter().collect(),
            Self::Io { source, .. } => shortage_of(source).into_iter().collect(),
            Self::Cancelled | Self::Refused { .. } | Self::PutBack { .. } => Vec::new(),
        }
    }

    fn retryable(&self) -> bool {
        matches!(self, Self::Busy { .. } | Self::Interrupted { .. } | Self::Cancelled)
    }
}

/// What went wrong at one path, before it is known what that means for the whole.
#[derive(Debug)]
pub(crate) enum Fault {
    Changed {
        path: PathBuf,
        why: String,
    },
    Io {
        action: &'static str,
        path: PathBuf,
        source: io::Error,
    },
    /// The caller wanted it to stop.
    Cancelled,
    /// The caller decided against it when everything was in place.
    Refused {
        why: String,
    },
}

impl Fault {
    pub(crate) fn changed(path: &Path, why: impl Into<String>) -> Self {
        Self::Changed { path: path.to_owned(), why: why.into() }
    }
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Changed { path, why } => write!(f, "{} {why}", path.display()),
            Self::Io { action, path, source } => write!(f, "failed to {action} {}: {source}", path.display()),
            Self::Cancelled => write!(f, "it was cancelled"),
            Self::Refused { why } => f.write_str(why),
        }
    }
}

impl From<Fault> for ApplyError {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Changed { path, why } => Self::Changed { path, why },
            Fault::Io { action, path, source } => Self::Io { action, path, source },
            Fault::Cancelled => Self::Cancelled,
            Fault::Refused { why } => Self::Refused { why },
        }
    }
}

/// Names the path in an error: `.map_err(on("open", &path))`.
pub(crate) fn on<E: Into<io::Error>>(action: &'static str, path: &Path) -> impl FnOnce(E) -> Fault {
    move |error| Fault::Io { action, path: path.to_owned(), source: error.into() }
}
