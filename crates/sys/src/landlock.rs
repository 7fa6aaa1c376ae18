//! Landlock as a second wall: even with a descriptor that leads outside, nothing outside can be opened, signalled or
//! reached through an abstract socket.
//!
//! Three system calls do it, so there is no crate for it here; the keeper's start is on the hot path.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::check;

/// File access rights by the ABI that introduced them.
const FS_RIGHTS_ABI_1: u64 = (1 << 13) - 1;
const FS_WRITE_FILE: u64 = 1 << 1;
const FS_READ_FILE: u64 = 1 << 2;
const FS_READ_DIR: u64 = 1 << 3;
/// Removing directories and files, and making things of each of the seven kinds.
const FS_NAMES: u64 = ((1 << 9) - 1) << 4;
const FS_REFER: u64 = 1 << 13;
const FS_TRUNCATE: u64 = 1 << 14;
const FS_IOCTL_DEV: u64 = 1 << 15;
const SCOPE_ABSTRACT_UNIX_SOCKET: u64 = 1;
const SCOPE_SIGNAL: u64 = 2;

const CREATE_RULESET_VERSION: libc::c_uint = 1;
const RULE_PATH_BENEATH: libc::c_int = 1;

#[repr(C)]
#[derive(Default)]
struct RulesetAttributes {
    handled_access_fs: u64,
    handled_access_net: u64,
    scoped: u64,
}

#[repr(C, packed)]
struct PathBeneath {
    allowed_access: u64,
    parent_fd: i32,
}

/// The ABI of the running kernel; 0 when it has no Landlock or it is switched off.
#[must_use]
pub fn abi() -> u32 {
    // SAFETY: a null structure of size 0 with the version flag only asks for the version.
    let version =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, std::ptr::null::<libc::c_void>(), 0, CREATE_RULESET_VERSION) };
    u32::try_from(version).unwrap_or(0)
}

/// What a confined thread can still use.
#[derive(Clone, Copy, Debug)]
pub struct Reach<'a> {
    /// Everything beneath this.
    pub beneath: BorrowedFd<'a>,
    /// A directory in there in which most of the work is done. At each access the kernel looks for a rule from the file upwards,
    /// directory by directory: the sooner it finds one, the better.
    pub often_used: Option<BorrowedFd<'a>>,
    /// What lies beneath this can be listed, by whoever has a descriptor of it.
    pub listed: Option<BorrowedFd<'a>>,
    /// Files in this directory can be read, by whoever has a descriptor of it.
    pub read: BorrowedFd<'a>,
}

/// Confines the calling thread and its descendants. Needs `no_new_privs`. Returns the ABI in force.
pub fn confine_to(reach: Reach<'_>) -> io::Result<u32> {
    let abi = abi();
    // Without REFER (ABI 2) every rename across directories would fail: a sandbox that cannot `mv` is no use.
    if abi < 2 {
        return Ok(0);
    }
    let ruleset = forbidden(rights(abi), abi)?;
    for directory in [Some(reach.beneath), reach.often_used].into_iter().flatten() {
        allow(&ruleset, directory, rights(abi))?;
    }
    if let Some(listed) = reach.listed {
        allow(&ruleset, listed, FS_READ_DIR)?;
    }
    allow(&ruleset, reach.read, FS_READ_FILE)?;
    restrict(&ruleset)?;
    Ok(abi)
}

/// Confines signals and abstract sockets of the calling thread and its descendants, and nothing else: whoever is confined in its files
/// may mount nothing, not even in a namespace of its own. Needs `no_new_privs`. Returns the ABI in force, 0 where the kernel cannot.
pub fn confine_scopes() -> io::Result<u32> {
    let abi = abi();
    if abi < 6 {
        return Ok(0);
    }
    restrict(&forbidden(0, abi)?)?;
    Ok(abi)
}

/// Confines the calling thread, and every thread it will start, to reading beneath these directories. Descriptors that are open
/// stay what they are. Needs `no_new_privs`. Returns the ABI in force, 0 where the kernel has none.
pub fn confine_to_reading(readable: &[BorrowedFd<'_>]) -> io::Result<u32> {
    let abi = abi();
    if abi == 0 {
        return Ok(0);
    }
    let ruleset = forbidden(rights(abi), abi)?;
    for directory in readable {
        allow(&ruleset, directory, FS_READ_FILE | FS_READ_DIR)?;
    }
    restrict(&ruleset)?;
    Ok(abi)
}

/// Confines the calling thread, and every thread and process it will start, to writing beneath a directory and to devices that are
/// there: nothing else can be changed, made, moved or removed. Needs `no_new_privs`. Returns the ABI in force, 0 where the kernel
/// has none.
pub fn confine_to_writing(scratch: Option<BorrowedFd<'_>>, devices: BorrowedFd<'_>) -> io::Result<u32> {
    let abi = abi();
    if abi == 0 {
        return Ok(0);
    }
    let writes = rights(abi) & (FS_WRITE_FILE | FS_NAMES | FS_REFER | FS_TRUNCATE);
    let ruleset = forbidden(writes, abi)?;
    if let Some(scratch) = scratch {
        allow(&ruleset, scratch, writes)?;
    }
    allow(&ruleset, devices, writes & (FS_WRITE_FILE | FS_TRUNCATE))?;
    restrict(&ruleset)?;
    Ok(abi)
}

/// All rights to files that this ABI knows.
fn rights(abi: u32) -> u64 {
    let since = |first: u32, right: u64| if abi >= first { right } else { 0 };
    FS_RIGHTS_ABI_1 | since(2, FS_REFER) | since(3, FS_TRUNCATE) | since(5, FS_IOCTL_DEV)
}

fn forbidden(rights: u64, abi: u32) -> io::Result<OwnedFd> {
    let attributes = RulesetAttributes {
        handled_access_fs: rights,
        handled_access_net: 0,
        scoped: if abi >= 6 { SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL } else { 0 },
    };
    // Older kernels refuse a larger structure whose tail is not zero; `scoped` is the last field and zero there.
    let size = if abi >= 6 { size_of::<RulesetAttributes>() } else { size_of::<u64>() };
    // SAFETY: the structure outlives the call and `size` does not exceed it.
    let fd = check(unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, &raw const attributes, size, 0) })?;
    // SAFETY: the kernel just returned this descriptor to us.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
}

fn restrict(ruleset: &OwnedFd) -> io::Result<()> {
    // SAFETY: takes a descriptor and flags.
    check(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) })?;
    Ok(())
}

fn allow(ruleset: &OwnedFd, beneath: impl AsFd, rights: u64) -> io::Result<()> {
    let rule = PathBeneath { allowed_access: rights, parent_fd: beneath.as_fd().as_raw_fd() };
    // SAFETY: both descriptors are open and the rule outlives the call.
    check(unsafe { libc::syscall(libc::SYS_landlock_add_rule, ruleset.as_raw_fd(), RULE_PATH_BENEATH, &raw const rule, 0) })?;
    Ok(())
}
