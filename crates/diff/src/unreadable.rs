//! What could not be looked at.
//!
//! A name that is not there is absence (`whatif_sys::absence`). Everything else is one of these, and is never taken for absence:
//! what the sandbox did there is not known.

use std::io;
use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// A path about which nothing, or not enough, is known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failed to look at {}: {}", path.display(), io::Error::from(*cause))]
pub struct Unreadable {
    pub path: PathBuf,
    pub cause: Errno,
}

impl Unreadable {
    #[must_use]
    pub fn new(path: &Path, cause: Errno) -> Self {
        Self { path: path.to_owned(), cause }
    }

    #[must_use]
    pub fn of(path: &Path, error: &io::Error) -> Self {
        // Errors without a number are ours: it is not the kind of file any more that it was a moment ago.
        Self::new(path, Errno::from_io_error(error).unwrap_or(Errno::STALE))
    }

    /// Whether it is closed to this user, as a sandbox may close what it made. Others can still be looked at then.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        matches!(self.cause, Errno::ACCESS | Errno::PERM)
    }

    /// The cause without the number.
    #[must_use]
    pub fn why(&self) -> String {
        let said = io::Error::from(self.cause).to_string();
        said.split(" (os error").next().unwrap_or_default().to_lowercase()
    }
}

impl From<Unreadable> for io::Error {
    fn from(unreadable: Unreadable) -> Self {
        Self::new(Self::from(unreadable.cause).kind(), unreadable)
    }
}
