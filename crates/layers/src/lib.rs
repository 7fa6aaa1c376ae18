//! The layer store and the mount plan: what a sandbox sees, where its changes go, and how both are put together.
//!
//! `survey` looks at reality, `plan` decides (a pure function), `prepare` makes directories and mask layers, `assemble` mounts
//! it all inside the keeper, and `remove` takes it away. Isolation of processes is not this crate's business.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod additions;
pub mod allotment;
pub mod assemble;
pub mod copy;
pub mod durable;
pub mod links;
pub mod masks;
pub mod measure;
pub mod parts;
pub mod plan;
pub mod remove;
pub mod shift;
mod spares;
pub mod squash;
pub mod state_dir;
pub mod state_place;
pub mod survey;
pub mod veil;

pub use state_dir::StateDir;

use std::io;
use std::path::{Path, PathBuf};

/// An input/output error that names its path and what was being done.
#[derive(Debug, thiserror::Error)]
#[error("failed to {action} {}", path.display())]
pub struct PathError {
    pub action: &'static str,
    pub path: PathBuf,
    #[source]
    pub source: io::Error,
}

/// Names the path in an error: `.map_err(on("open", &path))`.
pub(crate) fn on<E: Into<io::Error>>(action: &'static str, path: &Path) -> impl FnOnce(E) -> PathError {
    let path = path.to_owned();
    move |error| PathError { action, path, source: error.into() }
}
