//! Names for positions in stacks: snapshots, which belong to a sandbox, and templates, which belong to nobody.

use std::fmt;
use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::sandbox::Details;
use crate::{LayerId, SandboxId, SnapshotId, text};

/// A position in a sandbox's history. `rollback` returns to it, `fork` starts a new sandbox from it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    pub id: SnapshotId,
    pub sandbox: SandboxId,
    /// Unique within its sandbox.
    pub label: String,
    pub created_at: u64,
    #[serde(flatten)]
    pub details: SnapshotDetails,
}

/// What is kept beside the searchable columns.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SnapshotDetails {
    pub made_by: MadeBy,
    pub message: Option<String>,
    /// The snapshot its sandbox came from.
    pub parent: Option<SnapshotId>,
    /// Bottom first.
    pub stack: Vec<LayerId>,
    /// Synced to the disk when it was taken.
    #[serde(default)]
    pub durable: bool,
}

/// Why there is a snapshot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum MadeBy {
    /// Somebody asked for it.
    Request,
    /// Taken before a command, to be able to step back.
    Exec,
    /// What a rollback left behind.
    Rollback,
    /// What a fork started from.
    Fork,
    /// What a template was saved from.
    Template,
    /// What was put into an archive.
    Export,
}

impl MadeBy {
    /// How the labels of such snapshots begin.
    #[must_use]
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Request => "s",
            Self::Exec => "auto",
            Self::Rollback => "before-rollback",
            Self::Fork => "fork",
            Self::Template => "template",
            Self::Export => "export",
        }
    }
}

impl fmt::Display for MadeBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Request => "you",
            Self::Exec => "exec",
            Self::Rollback => "rollback",
            Self::Fork => "fork",
            Self::Template => "template",
            Self::Export => "export",
        })
    }
}

/// A prepared start for new sandboxes: dependencies installed, caches warm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Template {
    pub name: String,
    pub created_at: u64,
    #[serde(with = "text::path")]
    pub project: PathBuf,
    pub provider: String,
    pub message: Option<String>,
    /// The project's lockfiles as they were in reality, to tell when it has moved past them.
    pub lockfiles: Vec<Lockfile>,
    /// Of the sandbox it was saved from; the stack among them.
    pub details: Details,
}

/// What a package manager pins its versions in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lockfile {
    /// Relative to the project.
    #[serde(with = "text::path")]
    pub path: PathBuf,
    /// SHA-256 of its bytes.
    pub digest: String,
}

/// What has been found out about a layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerFacts {
    /// How often it was merged from others; 0 for a frozen head.
    pub tier: u8,
    pub files: Option<u64>,
    pub bytes: Option<u64>,
}
