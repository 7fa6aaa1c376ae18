//! Before it meets the sandbox, the supervisor gives up what it will not need.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
use rustix::process::{DumpableBehavior, Gid, Resource, Rlimit, Uid, getrlimit, set_dumpable_behavior, setrlimit};
use rustix::thread::{
    CapabilitySet, CapabilitySets, clear_ambient_capability_set, set_capabilities, set_no_new_privs, set_thread_groups,
    set_thread_res_gid, set_thread_res_uid,
};
use whatif_sys::seccomp::Filter;
use whatif_sys::{core_dumps, landlock, supervisor_filter};

/// What names are resolved by; either can be a link to elsewhere.
const READ_LATER: [&str; 2] = ["/etc/resolv.conf", "/etc/hosts"];

/// More than it can need (see `allowance`). Should something inside find a way to make it keep more, it ends, and not the host.
const MOST_MEMORY: u64 = 256 << 20;

/// As far as it goes. Says how many descriptors this process may have.
pub(crate) fn raise_descriptor_limit() -> usize {
    let limit = getrlimit(Resource::Nofile);
    let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    getrlimit(Resource::Nofile).current.map_or(usize::MAX, |most| usize::try_from(most).unwrap_or(usize::MAX))
}

/// For the calling thread and all it starts; there must be no other yet. Each step is required. (Landlock is required where the
/// kernel has it.) Root becomes the user `uid`.
pub(crate) fn confine(policy_directory: BorrowedFd<'_>, descriptors: BorrowedFd<'_>, uid: u32) -> io::Result<()> {
    // 1. Secrets in memory are not for a file, or for a program that reads crashes.
    core_dumps::forbid()?;

    // 2. Nor is the host's memory for whoever finds a way to fill it.
    limit_memory()?;

    // 3. Opened while that is still possible: what can be read later.
    let readable = directories_to_read();

    // 4. Root has no business here. What it opened stays open.
    if rustix::process::geteuid().is_root() {
        become_user(uid)?;
    }

    // 5. No capability, and none to come.
    clear_ambient_capability_set()?;
    let none = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective: none, permitted: none, inheritable: none })?;
    set_no_new_privs(true)?;

    // 6. Files: the policy, what names are resolved by, and what the kernel says about our descriptors. Nothing is written but what is open.
    let mut all: Vec<BorrowedFd<'_>> = readable.iter().map(AsFd::as_fd).collect();
    all.extend([policy_directory, descriptors]);
    landlock::confine_to_reading(&all)?;

    // 7. System calls: no other programs, no other kinds of sockets, none of the kernel's rarely used parts.
    Filter::build(None).install()?;
    supervisor_filter::install()?;

    // 8. Memory and descriptors are not for other processes of the same user, which those in the sandbox are. (Last: a change of
    //    identity would undo it.)
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(())
}

fn limit_memory() -> io::Result<()> {
    let most = getrlimit(Resource::Data).maximum.map_or(MOST_MEMORY, |maximum| maximum.min(MOST_MEMORY));
    setrlimit(Resource::Data, Rlimit { current: Some(most), maximum: Some(most) })?;
    Ok(())
}

fn directories_to_read() -> Vec<OwnedFd> {
    let real = READ_LATER.iter().filter_map(|path| std::fs::canonicalize(path).ok());
    let parents = real.filter_map(|path| path.parent().map(Path::to_owned));
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    parents.chain(["/etc".into()]).filter_map(|directory| open(&directory, flags, Mode::empty()).ok()).collect()
}

fn become_user(id: u32) -> io::Result<()> {
    let (gid, uid) = (Gid::from_raw(id), Uid::from_raw(id));
    let steps: [&dyn Fn() -> rustix::io::Result<()>; 3] =
        [&|| set_thread_groups(&[]), &|| set_thread_res_gid(gid, gid, gid), &|| set_thread_res_uid(uid, uid, uid)];
    for step in steps {
        match step() {
            Ok(()) => {}
            // Root of a user namespace that has no other ids is an ordinary user to everybody else.
            Err(Errno::INVAL | Errno::PERM) if is_in_user_namespace() => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

/// The first user namespace maps every id to itself. In doubt it is that one, where identities can be given up.
fn is_in_user_namespace() -> bool {
    let Ok(map) = std::fs::read_to_string("/proc/self/uid_map") else { return false };
    map.split_whitespace().collect::<Vec<_>>() != ["0", "0", "4294967295"]
}
