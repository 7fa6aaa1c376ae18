//! Records of sandboxes and of all that belongs to them.
//!
//! `Store` is the contract, a trait for each kind of record (`contract/`). `sql` keeps it in any `Database` that speaks SQL, `sqlite` is
//! the one in the state directory. The same suite of tests (`whatif-store-suite`) runs over every database.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod contract;
mod error;
pub mod sql;
pub mod sqlite;
mod witness;

pub use contract::audit::{Audit, AuditEntry, Deed};
pub use contract::events::{Event, Events, Happening, SpoolPart, Spooled};
pub use contract::experiments::Experiments;
pub use contract::keys::{Claim, Key, Keys};
pub use contract::layers::{LayerRecords, Layers};
pub use contract::leases::{Lease, Leases};
pub use contract::page::{Cursor, Page};
pub use contract::reservations::{Reservation, Reservations};
pub use contract::sandboxes::{Found, Inserted, Origin, SandboxFilter, Sandboxes};
pub use contract::snapshots::{Snapshots, Templates};
pub use contract::{Store, Upkeep};
pub use error::{StoreError, Trouble};
pub use witness::Witness;
