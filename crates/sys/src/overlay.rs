//! An overlay that is mounted somewhere, and what it remembers.
//!
//! The kernel keeps what it looked up for an overlay, so a file that reality replaced or deleted may still be seen as it was. Nothing
//! of that is left when the overlay is reconfigured, but for what processes have open; nothing else changes. Who owns the user
//! namespace of the mount may do so from outside, without entering it.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::CWD;
use rustix::mount::{FsPickFlags, fsconfig_reconfigure, fsconfig_set_flag, fspick};

/// Keeps the overlay alive, though not its mount.
#[derive(Debug)]
pub struct Overlay {
    context: OwnedFd,
    is_read_only: bool,
}

impl Overlay {
    /// The one that is mounted at a path. `is_read_only` if it has no upper layer.
    pub fn mounted_at(path: &Path, is_read_only: bool) -> io::Result<Self> {
        let context = fspick(CWD, path, FsPickFlags::FSPICK_CLOEXEC | FsPickFlags::FSPICK_NO_AUTOMOUNT)?;
        Ok(Self { context, is_read_only })
    }

    /// One that came from another process.
    #[must_use]
    pub fn from_parts(context: OwnedFd, is_read_only: bool) -> Self {
        Self { context, is_read_only }
    }

    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Lets it look up again whatever nobody holds on to.
    pub fn forget(&self) -> io::Result<()> {
        if self.is_read_only {
            // It cannot become writable, and that would be asked for.
            fsconfig_set_flag(self.context.as_fd(), "ro")?;
        }
        Ok(fsconfig_reconfigure(self.context.as_fd())?)
    }
}

impl AsFd for Overlay {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.context.as_fd()
    }
}
