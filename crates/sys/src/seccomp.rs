//! The system call filter of every process in a sandbox, the keeper included.
//!
//! It denies what Docker's default profile denies without extra capabilities, and a little more: modify_ldt, terminal
//! injection, and socket families other than the everyday ones. Numbers newer than this table answer "not implemented", so that
//! programs fall back to what is known here.

use std::collections::BTreeMap;
use std::io;

use crate::bpf::{Decision, Test, Verdict, program};
use crate::{check, open_files};

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xC000_003E;
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xC000_00B7;
#[cfg(target_arch = "x86_64")]
const X32_BIT: Option<u32> = Some(0x4000_0000);
#[cfg(target_arch = "aarch64")]
const X32_BIT: Option<u32> = None;

/// `mseal`, the newest call of this table; the same number on every architecture.
const NEWEST_KNOWN: libc::c_long = 462;

/// The number of the keeper's process and of its process group, inside.
const KEEPER: u32 = 1;
const PRIO_USER: u32 = 2;
const IOPRIO_WHO_USER: u32 = 3;

/// Every `CLONE_NEW*` flag that `clone` knows.
const NEW_NAMESPACES: u32 = 0x7E02_0000;
const NEW_TIME_NAMESPACE: u32 = 0x80;

/// `F_SETDELEG` of Linux 6.19: a lease by another name.
const SET_DELEGATION: u32 = 1040;

/// What exchanges blocks of two files, some without a trace in their times, so that other content would pass for what was looked
/// at: `EXT4_IOC_MOVE_EXT` and `_SWAP_BOOT`, `XFS_IOC_SWAPEXT`, `_EXCHANGE_RANGE` and `_COMMIT_RANGE`, `F2FS_IOC_MOVE_RANGE`. The
/// answer is that of a file system that does not know them.
const EXCHANGES: [u32; 6] = [0xC028_660F, 0x6611, 0xC0C0_586D, 0x4028_5881, 0x4058_5883, 0xC020_F509];

const DENIED: &[libc::c_long] = &[
    // mounts and roots
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_setns,
    // the kernel itself
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_syslog,
    libc::SYS_acct,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_quotactl,
    libc::SYS_quotactl_fd,
    libc::SYS_fanotify_init,
    libc::SYS_lookup_dcookie,
    libc::SYS_nfsservctl,
    libc::SYS_vhangup,
    // keys of the caller's session
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    // files by handle, descriptors of others
    libc::SYS_open_by_handle_at,
    libc::SYS_pidfd_getfd,
    libc::SYS_process_madvise,
    // the machine's clock and name
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_settimeofday,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    // memory placement across nodes, for which Docker asks for CAP_SYS_NICE
    libc::SYS_mbind,
    libc::SYS_set_mempolicy,
    libc::SYS_get_mempolicy,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    libc::SYS_set_mempolicy_home_node,
];

#[cfg(target_arch = "x86_64")]
const DENIED_HERE: &[libc::c_long] = &[
    libc::SYS_iopl,
    libc::SYS_ioperm,
    libc::SYS_modify_ldt,
    libc::SYS_kexec_file_load,
    libc::SYS_uselib,
    libc::SYS_ustat,
    libc::SYS_sysfs,
    libc::SYS__sysctl,
];
#[cfg(target_arch = "aarch64")]
const DENIED_HERE: &[libc::c_long] = &[libc::SYS_kexec_file_load];

/// Answered as if the kernel had never heard of them, so that programs use what they used before.
const UNKNOWN: &[libc::c_long] = &[
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_clone3,
    // All of the machine shares one number of contexts (fs.aio-max-nr), which no limit divides.
    libc::SYS_io_setup,
    // Pages that the keeper cannot tell from those of programs, and as long as there are any the machine cannot hibernate.
    libc::SYS_memfd_secret,
    // An overlay copies as much of a file as it remembers it to have, without what reality has appended since. Programs that are told
    // that there is no such call read and write instead, which an overlay passes on.
    libc::SYS_copy_file_range,
];

/// The filter, ready to be installed.
#[derive(Debug)]
pub struct Filter(Vec<libc::sock_filter>);

impl Filter {
    #[must_use]
    pub fn build() -> Self {
        Self(filter())
    }

    /// For the calling thread and everything it will start. Needs `no_new_privs`.
    pub fn install(&self) -> io::Result<()> {
        enforce(&self.0)
    }
}

/// Installs a filter on top of those that are there; the strictest verdict counts.
pub(crate) fn enforce(filter: &[libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog { len: filter.len() as libc::c_ushort, filter: filter.as_ptr().cast_mut() };
    // SAFETY: the program points at `filter`, which outlives the call; the kernel copies it.
    check(unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, 0, &raw const program) })?;
    Ok(())
}

pub(crate) fn filter() -> Vec<libc::sock_filter> {
    let mut decisions: BTreeMap<libc::c_long, Decision> = BTreeMap::new();
    for number in DENIED.iter().chain(DENIED_HERE) {
        decisions.insert(*number, Decision::Plain(Verdict::Errno(libc::EPERM)));
    }
    for number in UNKNOWN {
        decisions.insert(*number, Decision::Plain(Verdict::Errno(libc::ENOSYS)));
    }
    decisions.extend(questions().map(|(number, test)| (number, Decision::Ask(test))));
    decisions.extend(questions_about_the_keeper().map(|(number, test)| (number, Decision::Ask(test))));
    let mut ranges = ranges(&decisions);
    ranges.push((NEWEST_KNOWN as u32 + 1, Decision::Plain(Verdict::Errno(libc::ENOSYS))));
    compile(&ranges)
}

/// The filter for this machine.
pub(crate) fn compile(ranges: &[(u32, Decision)]) -> Vec<libc::sock_filter> {
    program(ARCHITECTURE, X32_BIT, ranges)
}

/// Calls that depend on an argument.
fn questions() -> [(libc::c_long, Test); 8] {
    let denied = Verdict::Errno(libc::EPERM);
    let no_family = Verdict::Errno(libc::EAFNOSUPPORT);
    let families = [libc::AF_UNIX, libc::AF_INET, libc::AF_INET6].map(|family| (family.unsigned_abs(), Verdict::Allow));
    let everyday = Test::Equals { argument: 0, table: families.to_vec(), otherwise: no_family };
    [
        (libc::SYS_clone, Test::AnyBit { argument: 0, mask: NEW_NAMESPACES, then: denied, otherwise: Verdict::Allow }),
        (
            libc::SYS_unshare,
            Test::AnyBit { argument: 0, mask: NEW_NAMESPACES | NEW_TIME_NAMESPACE, then: denied, otherwise: Verdict::Allow },
        ),
        (
            libc::SYS_socket,
            Test::BothEqual {
                argument: 0,
                value: libc::AF_NETLINK.unsigned_abs(),
                second: 2,
                second_value: libc::NETLINK_ROUTE.unsigned_abs(),
                rest: Box::new(everyday),
            },
        ),
        (
            libc::SYS_socketpair,
            Test::Equals { argument: 0, table: vec![(libc::AF_UNIX.unsigned_abs(), Verdict::Allow)], otherwise: no_family },
        ),
        (
            libc::SYS_ioctl,
            Test::Equals {
                argument: 1,
                table: [(libc::TIOCSTI as u32, denied), (libc::TIOCLINUX as u32, denied)]
                    .into_iter()
                    .chain(EXCHANGES.map(|exchange| (exchange, Verdict::Errno(libc::ENOTTY))))
                    .collect(),
                otherwise: Verdict::Allow,
            },
        ),
        (
            libc::SYS_personality,
            Test::Equals {
                argument: 0,
                table: [0, 8, 0x2_0000, 0x2_0008, u32::MAX].map(|persona| (persona, Verdict::Allow)).to_vec(),
                otherwise: denied,
            },
        ),
        (
            // The keeper, to which this filter applies too, looks for tables of open files that it has not counted.
            libc::SYS_kcmp,
            Test::Equals { argument: 2, table: vec![(open_files::TABLES, Verdict::Allow)], otherwise: denied },
        ),
        (
            // Whoever opens a leased file waits for its holder, on the host too. The answer is that of a file system without leases.
            libc::SYS_fcntl,
            Test::Equals {
                argument: 1,
                table: [libc::F_SETLEASE as u32, SET_DELEGATION].map(|command| (command, Verdict::Errno(libc::EINVAL))).to_vec(),
                otherwise: Verdict::Allow,
            },
        ),
    ]
}

/// The keeper is process 1, in a process group of that number, and may share the user's uid. Its limits and how it is scheduled are
/// not for those inside.
fn questions_about_the_keeper() -> [(libc::c_long, Test); 7] {
    let denied = Verdict::Errno(libc::EPERM);
    let of = |argument| Test::Equals { argument, table: vec![(KEEPER, denied)], otherwise: Verdict::Allow };
    // Of all processes of a user the keeper is one.
    let among = |all_of_a_user| Test::When { argument: 0, value: all_of_a_user, then: denied, rest: Box::new(of(1)) };
    [
        (libc::SYS_prlimit64, of(0)),
        (libc::SYS_sched_setaffinity, of(0)),
        (libc::SYS_sched_setscheduler, of(0)),
        (libc::SYS_sched_setparam, of(0)),
        (libc::SYS_sched_setattr, of(0)),
        (libc::SYS_setpriority, among(PRIO_USER)),
        (libc::SYS_ioprio_set, among(IOPRIO_WHO_USER)),
    ]
}

/// Turns single numbers into ranges that cover everything from 0 up.
pub(crate) fn ranges(decisions: &BTreeMap<libc::c_long, Decision>) -> Vec<(u32, Decision)> {
    let mut ranges: Vec<(u32, Decision)> = Vec::with_capacity(decisions.len() * 2 + 2);
    let mut next = 0;
    for (number, decision) in decisions {
        if *number > next {
            ranges.push((next as u32, Decision::Plain(Verdict::Allow)));
        }
        ranges.push((*number as u32, decision.clone()));
        next = number + 1;
    }
    ranges.push((next as u32, Decision::Plain(Verdict::Allow)));
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_filter_is_within_the_kernels_limit() {
        assert!(filter().len() < 4096, "{} instructions", filter().len());
    }

    #[test]
    fn ranges_are_sorted_and_start_at_zero() {
        let ranges = ranges(&[(2, Decision::Plain(Verdict::Kill)), (3, Decision::Plain(Verdict::Kill))].into());
        let starts: Vec<u32> = ranges.iter().map(|(start, _)| *start).collect();
        assert_eq!(starts, [0, 2, 3, 4]);
    }
}
