//! The record of one sandbox.

pub mod note;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::boot::{Protection, Work};
use crate::grants::Grants;
use crate::limits::{DefaultLimits, Expiry};
use crate::network::NetWish;
use crate::{Backend, Enforced, Handle, Identity, LayerId, Limits, NetMode, SandboxId, SnapshotId, Status, Usage, text};

/// Why a sandbox is not running. Decides whether `exec` may start it again by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// `run` ended and left no process.
    Finished,
    /// Somebody asked.
    Requested,
    /// The keeper was killed, or the machine restarted.
    Lost,
    /// Made from a snapshot, and not needed so far.
    NotStarted,
    /// Its time was up.
    Expired,
    /// Nobody had used it for as long as it was given.
    Idle,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sandbox {
    pub id: SandboxId,
    pub name: String,
    pub status: Status,
    /// Grows with every change of the row; a writer that saw an older one is refused.
    pub version: u64,
    pub created_at: u64,
    pub updated_at: u64,
    #[serde(with = "text::path")]
    pub project: PathBuf,
    pub provider: String,
    /// Who had it made, where several share the records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The machine that it is on, where records are of several.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    #[serde(flatten)]
    pub details: Details,
}

/// What is kept beside the searchable columns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Details {
    #[serde(with = "text::path")]
    pub cwd: PathBuf,
    pub labels: BTreeMap<String, String>,
    pub net: NetMode,
    /// What was asked for about the network.
    #[serde(default)]
    pub network: NetWish,
    pub backend: Backend,
    pub backend_reason: Option<String>,
    pub identity: Identity,
    /// Those outside begin with it that no other sandbox of root has while it runs, mapped or not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reserved_ids: Option<u32>,
    /// Paths of the copy-on-write trees; the position is the number of the tree's directory in the head. Some may be given up.
    #[serde(with = "text::paths")]
    pub trees: Vec<PathBuf>,
    /// Those of them that were copied into the head rather than overlaid.
    #[serde(default)]
    pub copied_trees: Vec<usize>,
    /// Those at which a file system was mounted when something was changed in them, or may have been. The directory beneath that is
    /// another one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mounted_trees: Vec<usize>,
    /// What was asked to be hidden besides the defaults.
    pub masked: Vec<String>,
    /// What was asked to be shown although it is masked by default.
    pub exposed: Vec<String>,
    /// What was exposed to the sandbox that its layers come from. It is hidden in them when this one first starts, as far as it is
    /// masked, and needs no naming afterwards.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub veiled: Vec<String>,
    /// What was granted to it, and to no sandbox by itself.
    #[serde(default, skip_serializing_if = "Grants::is_empty")]
    pub grants: Grants,
    /// Names of environment variables that were not carried inside.
    pub dropped_env: Vec<String>,
    pub carried_env: Vec<String>,
    /// Names of variables that were set when it was made; the values are known to its keeper only.
    #[serde(default)]
    pub set_env: Vec<String>,
    /// Of a running one: what its provider calls it.
    #[serde(rename = "keeper_pid")]
    pub handle: Option<Handle>,
    /// The protocol its keeper speaks; 0 for one from before that was written down.
    #[serde(default)]
    pub keeper_version: u32,
    pub protection: Protection,
    pub stop_reason: Option<StopReason>,
    pub error: Option<String>,
    pub command: Vec<String>,
    pub exit_code: Option<i32>,
    pub changed_files: u64,
    pub size_bytes: u64,
    /// When it was last rebased.
    #[serde(default)]
    pub based_at: Option<u64>,
    #[serde(default)]
    pub position: Position,
    /// Takes a snapshot before each command.
    #[serde(default)]
    pub auto_snapshot: bool,
    #[serde(default)]
    pub limits: Limits,
    /// By what they are enforced, in the keeper that it has or had last.
    #[serde(default)]
    pub enforced: Vec<Enforced>,
    /// The limits that nobody asked for, in the keeper that it has or had last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default_limits: Option<DefaultLimits>,
    /// When its time is up.
    #[serde(default)]
    pub expiry: Option<Expiry>,
    /// What the command of `run` used.
    #[serde(default)]
    pub usage: Option<Usage>,
    /// Belongs to a `run` that is still deciding whether to keep it.
    pub transient: bool,
    /// Nothing in it is worth keeping if that `run` is killed.
    #[serde(default)]
    pub disposable: bool,
}

impl Details {
    /// Whether its network needs a supervisor.
    #[must_use]
    pub fn is_supervised(&self) -> bool {
        self.net == NetMode::Filtered || !self.network.reach.is_empty() || !self.network.publish.is_empty()
    }
}

/// Where the path of a tree that was given up leads: nowhere, as nothing can lie beneath a device.
pub const GIVEN_UP: &str = "/dev/null";

/// Whether a tree was given up, because its mount went and nothing was ever changed in it. Its number is not given to another.
#[must_use]
pub fn is_given_up(tree: &Path) -> bool {
    tree.starts_with(GIVEN_UP)
}

/// Where a sandbox stands in its history.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Position {
    /// The frozen layers under its head, bottom first.
    pub stack: Vec<LayerId>,
    /// What its keeper has mounted: the same, unless layers were squashed since.
    pub mounted: Vec<LayerId>,
    /// The trees that have a directory in the head, by number: those made since the head was last replaced. None if that was not
    /// recorded, as earlier versions did not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heads: Option<Vec<usize>>,
    /// The work directories its keeper has mounted.
    pub work: Work,
    /// The snapshot it was last at.
    pub at: Option<SnapshotId>,
    /// How many snapshots were taken of it so far.
    pub taken: u64,
    /// When the first sandbox of its line was made; its own time if it came from no other.
    pub began_at: Option<u64>,
    /// When the first of its line was imported. Nothing tells when what is in older layers was touched, nor in which reality.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arrived_at: Option<u64>,
    /// The template or snapshot it was made from, as it was called then.
    pub made_from: Option<String>,
    /// When the view that its keeper has, or had last, was put together.
    pub viewed: Option<Viewed>,
}

/// A moment from which on a sandbox looked up everything it sees. What the kernel looks up for a mount it remembers, so a file that
/// reality replaces later may still be seen as it was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Viewed {
    /// Nothing that is seen was looked up before this, in the clock of file systems: what bears an earlier time was changed before,
    /// what bears this or a later one, after. Seconds and nanoseconds.
    #[serde(alias = "tick")]
    pub since: (i64, u32),
    /// Device and inode of the project's directory then.
    pub project: Option<(u64, u64)>,
    /// The directories that its trees were mounted over. A mount holds on to its own, whatever reality puts in that place.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub roots: Vec<Root>,
}

/// The directory of reality that a tree was mounted over.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Root {
    /// The tree's number.
    pub tree: usize,
    /// Device and inode.
    pub id: (u64, u64),
    /// Whether a file system was mounted there.
    pub is_mount: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_that_was_recorded_by_two_clocks_counts_from_the_earlier_one() {
        let recorded = r#"{"at": [7, 900], "tick": [7, 500], "project": [1, 2]}"#;
        let viewed: Viewed = serde_json::from_str(recorded).unwrap();
        assert_eq!(viewed, Viewed { since: (7, 500), project: Some((1, 2)), roots: Vec::new() });
        let again: Viewed = serde_json::from_str(&serde_json::to_string(&viewed).unwrap()).unwrap();
        assert_eq!(again, viewed);
    }
}
