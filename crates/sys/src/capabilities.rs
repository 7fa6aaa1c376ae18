//! Which capabilities commands keep.

use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, clear_ambient_capability_set, remove_capability_from_bounding_set,
    set_capabilities,
};

/// What it takes to start a sandbox whose root is somebody else outside: layers mounted, owners mapped and changed, namespaces made
/// for another user. A container usually keeps some of it from its root.
const OF_ROOT: CapabilitySet = CapabilitySet::SYS_ADMIN
    .union(CapabilitySet::SYS_PTRACE)
    .union(CapabilitySet::NET_ADMIN)
    .union(CapabilitySet::CHOWN)
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::MKNOD)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::SETFCAP)
    .union(CapabilitySet::SYS_CHROOT);

/// Whether this process has everything that root's way to a sandbox takes. What cannot be asked is not there.
#[must_use]
pub fn has_all_of_root() -> bool {
    capabilities(None).is_ok_and(|sets| sets.effective.contains(OF_ROOT))
}

/// What package managers and service scripts need, and no more. Held in the sandbox's own user namespace.
pub const FOR_ROOT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::KILL)
    .union(CapabilitySet::SETGID)
    .union(CapabilitySet::SETUID)
    .union(CapabilitySet::NET_BIND_SERVICE)
    .union(CapabilitySet::SYS_CHROOT)
    .union(CapabilitySet::SETFCAP);

/// Keeps exactly these, in every set that an `execve` could draw from.
pub fn keep_only(kept: CapabilitySet) -> rustix::io::Result<()> {
    for capability in CapabilitySet::all().difference(kept).iter() {
        match remove_capability_from_bounding_set(capability) {
            // Newer than the kernel: it cannot be held either.
            Err(rustix::io::Errno::INVAL) | Ok(()) => {}
            Err(errno) => return Err(errno),
        }
    }
    clear_ambient_capability_set()?;
    set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable: CapabilitySet::empty() })
}
