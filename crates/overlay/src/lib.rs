//! What overlay file systems write down in their layers: "gone", "nothing shows through", "came from there".
//!
//! The kernel writes these marks in one of two places, depending on who mounts it, and fuse-overlayfs in a third; [`Format`] tells
//! them apart. Everything that reads or writes a layer asks here, so that a review, a merge of layers, an archive and an apply
//! agree about what a sandbox sees. Nothing here walks a tree or knows what a layer is for.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod attribute;
mod directory;
mod format;
pub mod fuse;
mod mark;
mod opaque;
mod origin;
mod redirect;
pub mod whiteout;

pub use attribute::{Names, path_of};
pub use directory::{Said, Way};
pub use format::{Format, is_reserved};
pub use mark::Mark;
pub use redirect::Redirect;
