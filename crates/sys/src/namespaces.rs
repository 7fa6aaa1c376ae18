//! `unshare`, for namespaces only.

use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Leaves the present namespaces of these kinds for new ones.
pub fn unshare(kinds: UnshareFlags) -> rustix::io::Result<()> {
    // SAFETY: unsharing the descriptor table is the only unsound use, and it is taken out.
    unsafe { unshare_unsafe(kinds - UnshareFlags::FILES) }
}
