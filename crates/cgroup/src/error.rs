//! What can go wrong with a control group.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use whatif_types::explain::kind_of;
use whatif_types::{Explain, Kind, Remedy};

use crate::{Resource, Why};

#[derive(Debug, thiserror::Error)]
pub enum CgroupError {
    #[error("{name:?} cannot be the name of a control group")]
    Name { name: String },
    #[error("no control group can limit {resource}: {why}")]
    Unavailable { resource: Resource, why: Why },
    #[error("the control group {} exists already", path.display())]
    Exists { path: PathBuf },
    #[error("processes in the control group {} do not end", path.display())]
    Busy { path: PathBuf },
    #[error("failed to {action} {}", path.display())]
    Io {
        action: &'static str,
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

impl Explain for CgroupError {
    fn code(&self) -> &'static str {
        match self {
            CgroupError::Name { .. } => "invalid_name",
            CgroupError::Unavailable { .. } => "limits_unavailable",
            CgroupError::Exists { .. } => "cgroup_exists",
            CgroupError::Busy { .. } => "cgroup_busy",
            CgroupError::Io { .. } => "cgroup_failed",
        }
    }

    fn kind(&self) -> Kind {
        match self {
            CgroupError::Name { .. } => Kind::Invalid,
            CgroupError::Exists { .. } => Kind::Conflict,
            CgroupError::Unavailable { .. } | CgroupError::Busy { .. } => Kind::Unavailable,
            CgroupError::Io { source, .. } => kind_of(source),
        }
    }

    fn remedies(&self) -> Vec<Remedy> {
        match self {
            CgroupError::Unavailable { why, .. } => why.fix.iter().map(|fix| fix.as_str().into()).collect(),
            _ => Vec::new(),
        }
    }

    fn retryable(&self) -> bool {
        matches!(self, CgroupError::Busy { .. })
    }
}

impl CgroupError {
    pub(crate) fn is_absence(&self) -> bool {
        let CgroupError::Io { source, .. } = self else { return false };
        Errno::from_io_error(source) == Some(Errno::NOENT)
    }

    pub(crate) fn is_invalid(&self) -> bool {
        let CgroupError::Io { source, .. } = self else { return false };
        Errno::from_io_error(source) == Some(Errno::INVAL)
    }
}

/// Names the path in an error: `.map_err(on("open", &path))`.
pub(crate) fn on<E: Into<io::Error>>(action: &'static str, path: &Path) -> impl FnOnce(E) -> CgroupError {
    let path = path.to_owned();
    move |error| CgroupError::Io { action, path, source: error.into() }
}
