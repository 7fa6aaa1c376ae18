//! Landlock for a process that only reads, and only beneath a few directories.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use crate::{check, landlock};

const READ_FILE: u64 = 1 << 2;
const READ_DIR: u64 = 1 << 3;
/// All file access of the first ABI, then what later ones have added: to move between directories, to cut off, to control devices.
const RIGHTS_ABI_1: u64 = (1 << 13) - 1;
const REFER: u64 = 1 << 13;
const TRUNCATE: u64 = 1 << 14;
const IOCTL_DEV: u64 = 1 << 15;
const SCOPE_ABSTRACT_UNIX_SOCKET: u64 = 1;
const SCOPE_SIGNAL: u64 = 2;
const RULE_PATH_BENEATH: libc::c_int = 1;

#[repr(C)]
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

/// For the calling thread and every thread it will start. Descriptors that are open stay what they are. Needs `no_new_privs`.
/// Returns the ABI in force, 0 where the kernel has none.
pub fn confine(readable: &[BorrowedFd<'_>]) -> io::Result<u32> {
    let abi = landlock::abi();
    if abi == 0 {
        return Ok(0);
    }
    let since = |first: u32, right: u64| if abi >= first { right } else { 0 };
    let attributes = RulesetAttributes {
        handled_access_fs: RIGHTS_ABI_1 | since(2, REFER) | since(3, TRUNCATE) | since(5, IOCTL_DEV),
        handled_access_net: 0,
        scoped: since(6, SCOPE_ABSTRACT_UNIX_SOCKET | SCOPE_SIGNAL),
    };
    // Older kernels do not know the later fields.
    let size = if abi >= 6 { size_of::<RulesetAttributes>() } else { size_of::<u64>() };
    // SAFETY: the structure outlives the call and `size` does not exceed it.
    let fd = check(unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, &raw const attributes, size, 0) })?;
    // SAFETY: the kernel just returned this descriptor to us.
    let ruleset = unsafe { OwnedFd::from_raw_fd(fd as i32) };
    for directory in readable {
        let rule = PathBeneath { allowed_access: READ_FILE | READ_DIR, parent_fd: directory.as_raw_fd() };
        // SAFETY: both descriptors are open and the rule outlives the call.
        check(unsafe { libc::syscall(libc::SYS_landlock_add_rule, ruleset.as_raw_fd(), RULE_PATH_BENEATH, &raw const rule, 0) })?;
    }
    // SAFETY: takes a descriptor and flags.
    check(unsafe { libc::syscall(libc::SYS_landlock_restrict_self, ruleset.as_raw_fd(), 0) })?;
    Ok(abi)
}
