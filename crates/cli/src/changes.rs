//! Change sets for people: lists, coloured hunks, patches.

mod coloured;
mod list;
pub mod looks;
mod pager;
mod patch;
mod pick;

pub use coloured::hunks as coloured_hunks;
pub use list::{Extent, Implied, list};
pub use pager::Pager;
pub use patch::write as write_patch;
pub use pick::Picked;
