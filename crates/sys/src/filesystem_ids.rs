//! The ids a task uses for files. Needed for one step: mounting an overlay over idmapped layers.

use rustix::thread::{CapabilitySet, capabilities, set_capabilities};

/// Acts on files as this user and group, keeping the effective capabilities, which the kernel drops with the change.
///
/// An overlay keeps the credentials of who mounts it and uses them for every copy-up; over idmapped layers they must be
/// ids that the mapping knows, or the work directory fails and the overlay silently comes up read-only.
pub fn assume(uid: u32, gid: u32) -> rustix::io::Result<()> {
    // SAFETY: setfsgid and setfsuid change only the calling thread's credentials and take plain integers.
    unsafe {
        libc::setfsgid(gid);
        libc::setfsuid(uid);
    }
    let mut sets = capabilities(None)?;
    sets.effective = sets.permitted;
    debug_assert!(sets.effective.contains(CapabilitySet::SYS_ADMIN));
    set_capabilities(None, sets)
}
