//! The transaction that makes approved changes real.
//!
//! A [`Plan`] says what must be where now and what shall be there. [`check`] finds everything that stands against it and writes
//! nothing. [`apply`] does it, all or nothing: new versions are staged out of sight, a journal is committed, names are swapped,
//! and what was there before is kept for [`undo_plan`]. After a crash [`recover`] finishes it in one direction or the
//! other, deciding from what lies there and never from what should lie there.
//!
//! No path is followed through a link or across a mount. What a change is and whether it is wanted is not this crate's business.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod approved;
mod attributes;
mod backup;
mod check;
mod content;
mod error;
mod fingerprint;
mod finish;
mod flush;
mod forward;
mod further_name;
mod held;
mod journal;
mod layout;
mod look;
mod permission;
mod plan;
mod recover;
mod roll_back;
mod space;
mod stage;
mod swap;
mod transaction;
mod turn;
mod undo;
mod unmanaged;

pub use approved::Approved;
pub use check::check;
pub use error::{ApplyError, Problem};
pub use fingerprint::Hash;
pub use plan::{Attributes, Change, Existing, Expected, FurtherName, Identity, Kind, Operation, Plan, Source, Time};
pub use recover::{Outcome, Recovered, begun_in, recover, recover_in};
pub use transaction::{Applied, Conduct, Progress, Stage, Verdict, apply, apply_in};
pub use turn::Turn;
pub use undo::{Changed, Part, Record, RecordedOperation, State, UndoPlan, read, undo_plan, undo_plan_of};
pub use unmanaged::Unmanaged;
