//! Change sets for people: lists, coloured hunks, patches.

mod coloured;
mod list;
pub mod looks;
pub mod packages;
mod pager;
mod pick;

pub use coloured::hunks as coloured_hunks;
pub use list::{Extent, all_applied, list, listed, nothing_in_words};
pub use pager::Pager;
pub use pick::Picked;
pub use whatif_engine::changes::diff::{Implied, write_patch};
