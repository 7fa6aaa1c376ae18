//! Inside the keeper: everything that could reach outside is given up, for itself and for all it will ever start.

use std::io;

use rustix::process::DumpableBehavior;
use rustix::thread::CapabilitySet;
use whatif_sys::landlock::{self, Reach};
use whatif_sys::seccomp::Filter;
use whatif_sys::{allocation, capabilities, core_dumps, quota};
use whatif_types::Identity;

/// What could be confined, for the record.
#[derive(Clone, Copy, Debug)]
pub struct Confinement {
    pub landlock_abi: u32,
}

/// By what the room in the head is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoomLimit {
    None,
    /// Somebody looks now and then.
    Watched,
    /// The file system counts for the sandbox's project.
    Exact,
}

/// No `reach`: files are not guarded by Landlock, so that whoever makes a user namespace inside may mount in it.
///
/// Each step is required; a sandbox whose step fails does not start. (Landlock is required where the kernel has it.)
pub fn confine(
    identity: Identity,
    reach: Option<Reach<'_>>,
    calls: &Filter,
    room: RoomLimit,
) -> Result<Confinement, (&'static str, io::Error)> {
    let at = |step: &'static str| move |error: io::Error| (step, error);
    let errno = |step: &'static str| move |errno: rustix::io::Errno| (step, errno.into());

    // 1. A crash inside must not run the host's core dump handler, which lives outside.
    core_dumps::forbid().map_err(at("forbid core dumps"))?;

    // 2. Only what commands may have; everything else is gone from every set it could come back from.
    let kept = if identity.started_by_root() { capabilities::FOR_ROOT } else { CapabilitySet::empty() };
    capabilities::keep_only(kept).map_err(errno("drop capabilities"))?;

    // 3. No setuid program gives anything back.
    rustix::thread::set_no_new_privs(true).map_err(errno("set no_new_privs"))?;

    // 4. Nothing outside the sandbox can be opened, even through a descriptor that leads there.
    let confined = reach.map_or_else(landlock::confine_scopes, landlock::confine_to);
    let landlock_abi = confined.map_err(at("apply Landlock"))?;

    // 5. The kernel's rarely needed and often exploited parts.
    calls.install().map_err(at("install the system call filter"))?;
    match room {
        RoomLimit::None => {}
        RoomLimit::Watched => allocation::forbid().map_err(at("forbid to allocate disk space beforehand"))?,
        RoomLimit::Exact => quota::keep_memberships().map_err(at("keep files in the sandbox's project"))?,
    }

    // 6. Our memory, descriptors and environment are not for the processes inside, whose user we may share.
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(errno("protect the keeper's memory"))?;
    Ok(Confinement { landlock_abi })
}
