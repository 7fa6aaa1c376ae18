//! Pure data and rules: what a sandbox is, which states it goes through, what is masked, how a boot is described.
//!
//! Nothing here touches the file system, the clock or the environment; whoever needs those passes the values in.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod boot;
pub mod command_id;
pub mod config;
pub mod copied;
pub mod credentials;
pub mod environment;
pub mod event;
pub mod experiment;
pub mod explain;
pub mod grants;
pub mod handle;
pub mod id;
pub mod label;
pub mod limits;
pub mod mask;
pub mod mountinfo;
pub mod name;
pub mod network;
pub mod paths;
pub mod plan;
pub mod principal;
pub mod remedy;
pub mod sandbox;
pub mod selector;
pub mod snapshot;
pub mod span;
pub mod state;
pub mod text;
pub mod timestamp;

pub use boot::{Boot, Identity};
pub use command_id::{Chosen, CommandId};
pub use config::Size;
pub use event::EventKind;
pub use experiment::Experiment;
pub use explain::{Explain, Explained, Kind};
pub use handle::Handle;
pub use id::{ExperimentId, LayerId, SandboxId, SnapshotId};
pub use limits::{Enforced, LimitHit, Limits, Usage};
pub use network::NetMode;
pub use plan::{Backend, Place, PlaceKind, Plan};
pub use principal::Principal;
pub use remedy::Remedy;
pub use sandbox::Sandbox;
pub use selector::Selector;
pub use snapshot::{LayerFacts, Lockfile, MadeBy, Snapshot, SnapshotDetails, Template};
pub use span::Span;
pub use state::Status;
