//! The system call filter of the supervisor of a sandbox's network: what it never needs and an intruder would.
//!
//! It comes on top of [`crate::seccomp`], which every process of ours that meets a sandbox has; the stricter verdict counts.

use std::collections::BTreeMap;
use std::io;

use crate::bpf::{Decision, Test, Verdict};
use crate::seccomp::{compile, enforce, ranges};

const DENIED: &[libc::c_long] = &[
    // other programs
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_pidfd_send_signal,
    libc::SYS_kill,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    // other places and identities
    libc::SYS_unshare,
    libc::SYS_chroot,
    libc::SYS_personality,
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setgroups,
    libc::SYS_setfsuid,
    libc::SYS_setfsgid,
    libc::SYS_capset,
    // files: it reads a few and appends to one
    libc::SYS_mknodat,
    libc::SYS_mkdirat,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_renameat2,
    libc::SYS_unlinkat,
    libc::SYS_fchmodat,
    libc::SYS_fchownat,
    libc::SYS_setxattr,
    libc::SYS_lsetxattr,
    libc::SYS_fsetxattr,
    libc::SYS_truncate,
    libc::SYS_ftruncate,
    libc::SYS_memfd_create,
    libc::SYS_memfd_secret,
    // parts of the kernel with a history
    libc::SYS_io_setup,
    libc::SYS_io_submit,
    libc::SYS_inotify_init1,
    libc::SYS_name_to_handle_at,
    libc::SYS_msgget,
    libc::SYS_semget,
    libc::SYS_shmget,
    libc::SYS_mq_open,
    libc::SYS_timer_create,
    libc::SYS_vmsplice,
];

#[cfg(target_arch = "x86_64")]
const DENIED_HERE: &[libc::c_long] = &[
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_mknod,
    libc::SYS_mkdir,
    libc::SYS_rmdir,
    libc::SYS_link,
    libc::SYS_symlink,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_unlink,
    libc::SYS_creat,
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_inotify_init,
];
#[cfg(target_arch = "aarch64")]
const DENIED_HERE: &[libc::c_long] = &[libc::SYS_renameat];

/// For the calling thread and every thread it will start. Needs `no_new_privs`.
pub fn install() -> io::Result<()> {
    enforce(&filter())
}

fn filter() -> Vec<libc::sock_filter> {
    let denied = Verdict::Errno(libc::EPERM);
    let mut decisions: BTreeMap<libc::c_long, Decision> =
        DENIED.iter().chain(DENIED_HERE).map(|number| (*number, Decision::Plain(denied))).collect();
    let thread = Test::AnyBit { argument: 0, mask: libc::CLONE_THREAD.unsigned_abs(), then: Verdict::Allow, otherwise: denied };
    decisions.insert(libc::SYS_clone, Decision::Ask(thread));
    let families = [libc::AF_INET, libc::AF_INET6].map(|family| (family.unsigned_abs(), Verdict::Allow)).to_vec();
    let sockets = Test::Equals { argument: 0, table: families, otherwise: Verdict::Errno(libc::EAFNOSUPPORT) };
    decisions.insert(libc::SYS_socket, Decision::Ask(sockets));
    compile(&ranges(&decisions))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In a thread of its own, which keeps the filter until it ends.
    #[test]
    fn threads_and_internet_sockets_are_left_and_nothing_to_run_others_with() {
        let outcome = std::thread::spawn(|| {
            rustix::thread::set_no_new_privs(true).unwrap();
            crate::seccomp::Filter::build(None).install().unwrap();
            install().unwrap();
            let thread = std::thread::spawn(|| 7).join().unwrap();
            let program = std::process::Command::new("/bin/true").status().map_err(|error| error.raw_os_error());
            let socket = |family| rustix::net::socket(family, rustix::net::SocketType::STREAM, None).map(drop);
            let inet = socket(rustix::net::AddressFamily::INET);
            let unix = socket(rustix::net::AddressFamily::UNIX);
            let netlink = socket(rustix::net::AddressFamily::NETLINK);
            let removed = std::fs::remove_file("/nonexistent").map_err(|error| error.raw_os_error());
            (thread, program.is_err(), inet.is_ok(), unix, netlink, removed)
        })
        .join()
        .unwrap();
        let no_family = Err(rustix::io::Errno::AFNOSUPPORT);
        assert_eq!(outcome, (7, true, true, no_family, no_family, Err(Some(libc::EPERM))));
    }
}
