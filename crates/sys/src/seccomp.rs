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

/// Changes nothing and returns what is set.
const TELL_PERSONALITY: u32 = u32::MAX;
/// `PER_LINUX32`, `UNAME26` and, for debuggers, `ADDR_NO_RANDOMIZE`: they are about the caller and what it executes, which gains
/// nothing by an execution here. All else is denied: `READ_IMPLIES_EXEC`, `MMAP_PAGE_ZERO`, the personalities of other systems.
const HARMLESS_PERSONALITY: u32 = 0x8 | 0x2_0000 | 0x4_0000;

/// "No change" in place of a user or a group.
const LEAVE_ID: u32 = u32::MAX;

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

/// What makes a namespace, and what needs capabilities that its maker has in it.
const FOR_NAMESPACES: &[libc::c_long] = &[
    libc::SYS_clone,
    libc::SYS_unshare,
    libc::SYS_setns,
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
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
];

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

/// The user and the group of a sandbox that has no other ids.
#[derive(Clone, Copy, Debug)]
pub struct OnlyIds {
    pub uid: u32,
    pub gid: u32,
}

impl Filter {
    /// `only` where the user namespace maps nothing else.
    #[must_use]
    pub fn build(only: Option<OnlyIds>) -> Self {
        Self(filter(only))
    }

    /// One with which further user namespaces can be made. Whatever the makers of one may do in it is left to the kernel, which
    /// asks for capabilities that nobody has in the sandbox's own. Ids that are unknown here may be known there.
    #[must_use]
    pub fn with_namespaces() -> Self {
        let mut decisions = decisions(None);
        decisions.retain(|number, _| !FOR_NAMESPACES.contains(number));
        Self(covering(&decisions))
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

pub(crate) fn filter(only: Option<OnlyIds>) -> Vec<libc::sock_filter> {
    covering(&decisions(only))
}

fn covering(decisions: &BTreeMap<libc::c_long, Decision>) -> Vec<libc::sock_filter> {
    let mut ranges = ranges(decisions);
    ranges.push((NEWEST_KNOWN as u32 + 1, Decision::Plain(Verdict::Errno(libc::ENOSYS))));
    compile(&ranges)
}

fn decisions(only: Option<OnlyIds>) -> BTreeMap<libc::c_long, Decision> {
    let mut decisions: BTreeMap<libc::c_long, Decision> = BTreeMap::new();
    for number in DENIED.iter().chain(DENIED_HERE) {
        decisions.insert(*number, Decision::Plain(Verdict::Errno(libc::EPERM)));
    }
    for number in UNKNOWN {
        decisions.insert(*number, Decision::Plain(Verdict::Errno(libc::ENOSYS)));
    }
    decisions.extend(questions().map(|(number, test)| (number, Decision::Ask(test))));
    decisions.extend(questions_about_the_keeper().map(|(number, test)| (number, Decision::Ask(test))));
    decisions.extend(only.into_iter().flat_map(questions_about_ids).map(|(number, test)| (number, Decision::Ask(test))));
    decisions
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
            Test::When {
                argument: 0,
                value: TELL_PERSONALITY,
                then: Verdict::Allow,
                rest: Box::new(Test::AnyBit { argument: 0, mask: !HARMLESS_PERSONALITY, then: denied, otherwise: Verdict::Allow }),
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

/// Calls that take users and groups, with the arguments that are some. To ids that its user namespace does not know the kernel says
/// "invalid argument", which programs take for a mistake of theirs. Outside, the same user would be told that it is not permitted.
///
/// This is decided before the kernel looks for the file, so a file that is missing is "not permitted" too.
fn questions_about_ids(only: OnlyIds) -> impl Iterator<Item = (libc::c_long, Test)> {
    let denied = Verdict::Errno(libc::EPERM);
    ID_ARGUMENTS.iter().map(move |(number, arguments)| {
        let values = |id: Id| match id {
            Id::User => [only.uid, LEAVE_ID],
            Id::Group => [only.gid, LEAVE_ID],
        };
        let (first, rest) = arguments.split_first().expect("each of them takes an id");
        let of_one = |(argument, id): &(u32, Id)| Test::Equals {
            argument: *argument,
            table: values(*id).map(|value| (value, Verdict::Allow)).to_vec(),
            otherwise: denied,
        };
        let test = rest.iter().fold(of_one(first), |test, (argument, id)| Test::Unless {
            argument: *argument,
            values: values(*id).to_vec(),
            then: denied,
            rest: Box::new(test),
        });
        (*number, test)
    })
}

#[derive(Clone, Copy)]
enum Id {
    User,
    Group,
}

/// `setgroups` and `setfsuid` need nothing: the former is denied in such a namespace, the latter never fails.
const ID_ARGUMENTS: &[(libc::c_long, &[(u32, Id)])] = &[
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_chown, &[(1, Id::User), (2, Id::Group)]),
    #[cfg(target_arch = "x86_64")]
    (libc::SYS_lchown, &[(1, Id::User), (2, Id::Group)]),
    (libc::SYS_fchown, &[(1, Id::User), (2, Id::Group)]),
    (libc::SYS_fchownat, &[(2, Id::User), (3, Id::Group)]),
    (libc::SYS_setuid, &[(0, Id::User)]),
    (libc::SYS_setgid, &[(0, Id::Group)]),
    (libc::SYS_setreuid, &[(0, Id::User), (1, Id::User)]),
    (libc::SYS_setregid, &[(0, Id::Group), (1, Id::Group)]),
    (libc::SYS_setresuid, &[(0, Id::User), (1, Id::User), (2, Id::User)]),
    (libc::SYS_setresgid, &[(0, Id::Group), (1, Id::Group), (2, Id::Group)]),
];

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
        let filter = filter(Some(OnlyIds { uid: 1000, gid: 1000 }));
        assert!(filter.len() < 4096, "{} instructions", filter.len());
    }

    #[test]
    fn ranges_are_sorted_and_start_at_zero() {
        let ranges = ranges(&[(2, Decision::Plain(Verdict::Kill)), (3, Decision::Plain(Verdict::Kill))].into());
        let starts: Vec<u32> = ranges.iter().map(|(start, _)| *start).collect();
        assert_eq!(starts, [0, 2, 3, 4]);
    }
}
