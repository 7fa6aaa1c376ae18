//! Confines a program that serves a file system from user space, as fuse-overlayfs does. Whatever it reads from the kernel was
//! chosen by processes of a sandbox, and it runs with more rights than they have.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::io::FdFlags;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, configure_capability_in_ambient_set, set_capabilities};

use crate::bpf::{Decision, Verdict};
use crate::capabilities::keep_only;
use crate::seccomp::{self, compile, enforce, ranges};
use crate::{check, core_dumps};

/// To own, read and mark files as overlayfs would. Its marks are attributes that only `SYS_ADMIN` may set; the filter takes away
/// what else that is good for.
const KEPT: CapabilitySet = CapabilitySet::CHOWN
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::FSETID)
    .union(CapabilitySet::MKNOD)
    .union(CapabilitySet::SETFCAP)
    .union(CapabilitySet::SYS_ADMIN);

/// Besides what every process of a sandbox is denied.
const DENIED: &[libc::c_long] = &[
    libc::SYS_socket,
    libc::SYS_socketpair,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_open,
    libc::SYS_kill,
    libc::SYS_unshare,
    libc::SYS_chroot,
];

/// The command will run with its standard streams, `inherited`, and nothing else that is open here.
pub fn confine(command: &mut Command, inherited: BorrowedFd<'_>) {
    let number = inherited.as_raw_fd();
    let denied = DENIED.iter().map(|number| (*number, Decision::Plain(Verdict::Errno(libc::EPERM))));
    let filters = [seccomp::filter(None), compile(&ranges(&denied.collect::<BTreeMap<_, _>>()))];
    let give_up = move || -> io::Result<()> {
        // 1. No descriptor of the keeper's.
        // SAFETY: marks descriptors of this child only.
        check(unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC) })?;
        // SAFETY: the caller of `spawn` still has it open, and this child is a copy of that process.
        rustix::io::fcntl_setfd(unsafe { BorrowedFd::borrow_raw(number) }, FdFlags::empty())?;
        // 2. No core dumps, which a program of the host would read.
        core_dumps::forbid()?;
        // 3. Capabilities for files only; an ordinary user's survive the execution because they are ambient.
        let kept = KEPT.intersection(capabilities(None)?.permitted);
        keep_only(kept)?;
        set_capabilities(None, CapabilitySets { effective: kept, permitted: kept, inheritable: kept })?;
        for capability in kept.iter() {
            configure_capability_in_ambient_set(capability, true)?;
        }
        // 4. No others from programs, and none of the system calls it never needs.
        rustix::thread::set_no_new_privs(true)?;
        filters.iter().try_for_each(|filter| enforce(filter))
    };
    // SAFETY: between fork and execution it makes system calls only; the filters were made before, and nothing is allocated.
    unsafe { command.pre_exec(give_up) };
}
