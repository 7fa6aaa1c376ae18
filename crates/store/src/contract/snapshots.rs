//! Snapshots, and the templates that are made of them.

use whatif_types::{Sandbox, SandboxId, Snapshot, SnapshotId, Template};

use super::sandboxes::Origin;
use crate::StoreError;

pub trait Snapshots {
    /// Records a new snapshot and where its sandbox stands now, both or neither.
    fn insert_snapshot(&self, snapshot: &Snapshot, sandbox: &mut Sandbox) -> Result<(), StoreError>;
    /// Records that a sandbox stands at something recorded, if that is still there, and under a new snapshot, if there is one, what
    /// it was before.
    fn move_to(&self, sandbox: &mut Sandbox, origin: &Origin<'_>, before: Option<&Snapshot>) -> Result<(), StoreError>;
    fn get_snapshot(&self, id: &SnapshotId) -> Result<Option<Snapshot>, StoreError>;
    fn find_snapshot(&self, sandbox: &SandboxId, label: &str) -> Result<Option<Snapshot>, StoreError>;
    /// The snapshots of this label, of all sandboxes.
    fn find_label(&self, label: &str) -> Result<Vec<Snapshot>, StoreError>;
    /// Oldest first.
    fn list_snapshots(&self, sandbox: &SandboxId) -> Result<Vec<Snapshot>, StoreError>;
    /// What came from one of them comes from what that one came from.
    fn delete_snapshots(&self, ids: &[SnapshotId]) -> Result<(), StoreError>;
}

pub trait Templates {
    /// Records a template that was made from something recorded, if that is still there. One of the same name goes if it may.
    fn insert_template(&self, template: &Template, origin: Option<&Origin<'_>>, replace: bool) -> Result<(), StoreError>;
    fn get_template(&self, name: &str) -> Result<Option<Template>, StoreError>;
    /// Newest first.
    fn list_templates(&self) -> Result<Vec<Template>, StoreError>;
    fn delete_template(&self, name: &str) -> Result<(), StoreError>;
}
