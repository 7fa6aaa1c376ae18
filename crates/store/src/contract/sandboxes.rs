//! Sandboxes.

use std::path::PathBuf;

use whatif_types::{Sandbox, SandboxId, SnapshotId, Status};

use super::leases::Lease;
use super::page::{Cursor, Page};
use crate::StoreError;

pub trait Sandboxes {
    /// Reserves the row of a new sandbox. With an idempotency key that was used before, the existing sandbox is returned
    /// and nothing is inserted.
    fn insert(&self, sandbox: &Sandbox, idempotency_key: Option<&str>) -> Result<Inserted, StoreError>;
    /// Reserves the row of a sandbox that starts from something recorded, if that is still there: with its last record, layers go.
    fn insert_from(&self, sandbox: &Sandbox, origin: &Origin<'_>) -> Result<(), StoreError>;
    fn get(&self, id: &SandboxId) -> Result<Option<Sandbox>, StoreError>;
    /// The sandbox that was made with this idempotency key.
    fn find_by_key(&self, key: &str) -> Result<Option<Sandbox>, StoreError>;
    /// By exact name, or by a prefix of the id that fits only one.
    fn find(&self, name_or_prefix: &str) -> Result<Found, StoreError>;
    /// All of them, newest first.
    fn list(&self) -> Result<Vec<Sandbox>, StoreError>;
    /// Those that the filter lets through, newest first, at most `limit`, from where another page ended.
    fn page(&self, filter: &SandboxFilter, after: Option<&Cursor>, limit: usize) -> Result<Page<Sandbox>, StoreError>;
    /// Writes the row if its version is still the one in `sandbox` and its state may become the new one; the new version is stored
    /// in it.
    fn update(&self, sandbox: &mut Sandbox) -> Result<(), StoreError>;
    /// The same, for one who holds a lease: nothing is written once somebody else has it.
    fn update_under(&self, sandbox: &mut Sandbox, lease: &Lease, now: u64) -> Result<(), StoreError>;
    /// Takes a sandbox from one state to another, and returns it as it is then. Somebody who found it in another state is refused; one
    /// who asks for the state it is already in is not.
    fn transition(&self, id: &SandboxId, from: Status, to: Status, now: u64) -> Result<Sandbox, StoreError>;
    /// Removes the row and those of its snapshots. One that is gone already is a success.
    fn delete(&self, id: &SandboxId) -> Result<(), StoreError>;
}

/// Which sandboxes are meant. What is not said does not matter.
#[derive(Clone, Debug, Default)]
pub struct SandboxFilter {
    pub statuses: Vec<Status>,
    pub project: Option<PathBuf>,
    pub owner: Option<String>,
    pub node: Option<String>,
    pub provider: Option<String>,
    /// It has this label with this value.
    pub label: Option<(String, String)>,
}

/// What something new starts from.
#[derive(Clone, Copy, Debug)]
pub enum Origin<'a> {
    Sandbox(&'a SandboxId),
    Snapshot(&'a SnapshotId),
    Template(&'a str),
}

#[derive(Debug)]
pub enum Inserted {
    New,
    Existing(Box<Sandbox>),
}

#[derive(Debug)]
pub enum Found {
    One(Box<Sandbox>),
    None,
    Several(Vec<String>),
}
