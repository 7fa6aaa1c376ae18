//! `unshare`, for namespaces only.

use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Leaves the present namespaces of these kinds for new ones.
pub fn unshare(kinds: UnshareFlags) -> rustix::io::Result<()> {
    // SAFETY: unsharing the descriptor table is the only unsound use, and it is taken out.
    unsafe { unshare_unsafe(kinds - UnshareFlags::FILES) }
}

/// Gains every right over the caller's own files, even those it has closed to itself, by way of a user namespace in which it is
/// itself. For a single-threaded process that has nothing to do with other namespaces any more.
pub fn own_everything(uid: u32, gid: u32) -> std::io::Result<()> {
    unshare(UnshareFlags::NEWUSER)?;
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("{uid} {uid} 1\n"))?;
    std::fs::write("/proc/self/gid_map", format!("{gid} {gid} 1\n"))
}
