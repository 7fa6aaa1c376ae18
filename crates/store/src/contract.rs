//! What records can be asked for, a file for each kind of them. Nothing here knows what keeps them.

pub mod audit;
pub mod events;
pub mod experiments;
pub mod keys;
pub mod layers;
pub mod leases;
pub mod page;
pub mod reservations;
pub mod sandboxes;
pub mod snapshots;

use crate::StoreError;

/// Where records live. Every call is one transaction: a caller that dies in the middle leaves either what was or what is to be. One
/// store serves any number of threads, and any number of processes may have one of the same records.
pub trait Store:
    sandboxes::Sandboxes
    + snapshots::Snapshots
    + snapshots::Templates
    + experiments::Experiments
    + layers::LayerRecords
    + leases::Leases
    + reservations::Reservations
    + events::Events
    + audit::Audit
    + keys::Keys
    + Upkeep
    + Send
    + Sync
    + std::fmt::Debug
{
}

/// What keeps records fast and durable.
pub trait Upkeep {
    /// Whether a record can probably be written at once. A look that costs next to nothing; `false` if it tells nothing.
    fn is_at_ease(&self) -> bool;
    /// Whether `tidy` is worth its disk flushes now. Cheap.
    fn wants_tidying(&self) -> bool;
    /// Work that keeps later commands fast; better done in the background.
    fn tidy(&self) -> Result<(), StoreError>;
    /// Returns once everything committed so far survives a power cut. Commits alone may be durable only some time later; nothing may
    /// be reported, or deleted because of one, before this.
    fn flush(&self) -> Result<(), StoreError>;
}
