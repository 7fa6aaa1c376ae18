//! What an undo finds changed.

use std::path::PathBuf;

/// A path that is not any more as an apply left it.
#[derive(Clone, Debug)]
pub struct ChangedPath {
    pub path: PathBuf,
    /// Follows the path.
    pub why: String,
    /// What was there before the apply, if that is kept.
    pub earlier: Option<PathBuf>,
}
