//! What a sandbox changed: typed change sets, found by walking heads and layers, never the base tree.
//!
//! `scan` finds raw changes, `base` knows what they started from, `set` puts them in words: ignored, renamed, risky.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod acl;
pub mod attributes;
pub mod base;
mod between;
pub mod change;
mod commits;
pub mod content;
pub mod copied;
mod dependencies;
pub mod digest;
mod drift;
pub mod git_index;
pub mod granted;
pub mod ignored;
mod links;
mod moved;
pub mod node;
pub mod noise;
mod origin;
mod overlap;
pub mod packages;
pub mod pattern;
mod rename;
pub mod risk;
mod said;
pub mod scan;
mod seal;
pub mod seen;
pub mod set;
pub mod summary;
pub mod text;
mod unreadable;
pub mod watch;

pub use base::Bases;
pub use between::between;
pub use change::{Base, Blocked, Change, ChangeKind, State, shown_path};
pub use commits::Commits;
pub use dependencies::DependencyTrees;
pub use drift::Moved;
pub use links::{Linked, Twin};
pub use node::{Kind, LONG_AGO, Node, Time};
pub use overlap::overlaps;
pub use packages::{Counts, Manager, Package, PackageGroup, Packages};
pub use risk::{Account, Flag};
pub use scan::{Found, Reach, Renamed, Scope, Through, Tree, Unchanged, scan};
pub use seen::Seen;
pub use set::{ChangeSet, Collapsed, Depth, is_in_repository};
pub use summary::{Example, Summary, summarize};
pub use unreadable::Unreadable;
