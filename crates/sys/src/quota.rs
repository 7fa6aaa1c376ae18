//! Project quotas: to which project a directory belongs, and how much of a file system a project may take.
//!
//! A file or directory belongs to at most one project. What is made in a directory that passes its project on belongs to it too, and
//! nothing else can be moved or linked there.

use std::collections::BTreeMap;
use std::io;
use std::mem::offset_of;
use std::os::fd::{AsFd, AsRawFd};

use crate::bpf::{Decision, Test, Verdict};
use crate::check;
use crate::seccomp::{compile, enforce, ranges};

const GET_ATTRIBUTES: libc::Ioctl = 0x801C_581F;
const SET_ATTRIBUTES: libc::Ioctl = 0x401C_5820;
/// `FS_IOC_SETFLAGS`, and the same of 32-bit programs.
const SET_FLAGS: [u32; 2] = [0x4008_6602, 0x4004_6602];
const PASSES_ON: u32 = 0x200;

const OF_PROJECTS: libc::c_uint = 2;
const GET_ACCOUNT: libc::c_uint = 0x80_0007;
const SET_ACCOUNT: libc::c_uint = 0x80_0008;
const GET_NEXT_ACCOUNT: libc::c_uint = 0x80_0009;
const GET_STATE: libc::c_uint = 0x5808;

const STATE_VERSION: u8 = 1;
const PROJECTS_ARE_ENFORCED: u16 = 1 << 5;
/// Only limits are set, not what is used.
const LIMITS_ARE_VALID: u32 = 1 | 4;
/// In which the kernel takes limits.
const BLOCK: u64 = 1024;

/// `struct fsxattr`.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    flags: u32,
    extent_size: u32,
    extents: u32,
    project: u32,
    copied_extent_size: u32,
    padding: [u8; 8],
}

/// `struct if_nextdqblk`, which is `struct if_dqblk` with the number where that has padding.
#[repr(C)]
#[derive(Default)]
struct RawAccount {
    most_blocks: u64,
    soft_blocks: u64,
    bytes: u64,
    most_files: u64,
    soft_files: u64,
    files: u64,
    block_time: u64,
    file_time: u64,
    valid: u32,
    project: u32,
}

/// `struct fs_quota_statv`, of which only the beginning is of interest.
#[repr(C)]
#[derive(Default)]
struct RawState {
    version: u8,
    padding: u8,
    flags: u16,
    in_core: u32,
    rest: [u64; 31],
}

const _: () = assert!(size_of::<Attributes>() == 28 && size_of::<RawAccount>() == 72 && offset_of!(RawAccount, project) == 68);

/// To which project something belongs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Membership {
    /// 0 is none.
    pub project: u32,
    /// Whether what is made in it belongs there too.
    pub passes_on: bool,
}

/// What a project takes, and may take. 0 is no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    pub bytes: u64,
    pub files: u64,
    pub most_bytes: u64,
    pub most_files: u64,
}

/// # Errors
/// Where the file system knows no projects, too.
pub fn membership(of: impl AsFd) -> io::Result<Membership> {
    let found = attributes(of.as_fd().as_raw_fd())?;
    Ok(Membership { project: found.project, passes_on: found.flags & PASSES_ON != 0 })
}

/// Nothing that is in a directory already is changed.
pub fn assign(to: impl AsFd, membership: Membership) -> io::Result<()> {
    let fd = to.as_fd().as_raw_fd();
    let mut wanted = attributes(fd)?;
    wanted.project = membership.project;
    wanted.flags = if membership.passes_on { wanted.flags | PASSES_ON } else { wanted.flags & !PASSES_ON };
    // SAFETY: the kernel reads a `struct fsxattr`, which this is, and it lives until the call returns.
    check(unsafe { libc::ioctl(fd, SET_ATTRIBUTES, &raw const wanted) }.into())?;
    Ok(())
}

fn attributes(fd: libc::c_int) -> io::Result<Attributes> {
    let mut found = Attributes::default();
    // SAFETY: the kernel writes a `struct fsxattr`, which this is, and it lives until the call returns.
    check(unsafe { libc::ioctl(fd, GET_ATTRIBUTES, &raw mut found) }.into())?;
    Ok(found)
}

/// Whether the file system of a file holds projects to their limits. Anybody may ask.
///
/// # Errors
/// Where it has no quotas, too, and where the kernel cannot be asked about a descriptor (before Linux 5.14).
pub fn are_enforced(on: impl AsFd) -> io::Result<bool> {
    let mut state = RawState { version: STATE_VERSION, ..RawState::default() };
    call(on, GET_STATE, 0, &mut state)?;
    Ok(state.flags & PROJECTS_ARE_ENFORCED != 0)
}

/// # Errors
/// For everybody who does not administer the machine, too.
pub fn account(on: impl AsFd, project: u32) -> io::Result<Account> {
    let mut raw = RawAccount::default();
    match call(on, GET_ACCOUNT, project, &mut raw) {
        // XFS says so of a project that never had anything.
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(Account::default()),
        other => other.map(|()| known(&raw)),
    }
}

/// The account of this project, or of the next one that has any.
pub fn next_account(on: impl AsFd, from: u32) -> io::Result<Option<(u32, Account)>> {
    let mut raw = RawAccount::default();
    match call(on, GET_NEXT_ACCOUNT, from, &mut raw) {
        Err(error) if error.raw_os_error() == Some(libc::ENOENT) => Ok(None),
        other => other.map(|()| Some((raw.project, known(&raw)))),
    }
}

/// Limits a project, to whole blocks. 0 is no limit.
pub fn limit(on: impl AsFd, project: u32, most_bytes: u64, most_files: u64) -> io::Result<()> {
    let most_blocks = if most_bytes == 0 { 0 } else { (most_bytes / BLOCK).max(1) };
    call(on, SET_ACCOUNT, project, &mut RawAccount { most_blocks, most_files, valid: LIMITS_ARE_VALID, ..RawAccount::default() })
}

fn known(raw: &RawAccount) -> Account {
    let RawAccount { bytes, files, most_blocks, most_files, .. } = *raw;
    Account { bytes, files, most_bytes: most_blocks.saturating_mul(BLOCK), most_files }
}

/// `data` is what the kernel reads or writes for this operation.
fn call<T>(on: impl AsFd, operation: libc::c_uint, project: u32, data: &mut T) -> io::Result<()> {
    let command = operation << 8 | OF_PROJECTS;
    // SAFETY: each caller passes the structure that belongs to its operation, of at least the kernel's size; it lives until the call
    // returns.
    let done = unsafe { libc::syscall(libc::SYS_quotactl_fd, on.as_fd().as_raw_fd(), command, project, std::ptr::from_mut(data)) };
    check(done).map(drop)
}

/// Nobody from here on changes to which project something belongs, or whether a directory passes that on; for the calling thread and
/// everything it will start. Needs `no_new_privs`.
///
/// The kernel lets only the initial user namespace do so. But an overlay carries out with the rights of whoever mounted it what it is
/// asked for, and a file that was just copied up gets the project that the original had: none. The answer is that of a file system
/// without such attributes.
pub fn keep_memberships() -> io::Result<()> {
    let unsupported = Verdict::Errno(libc::EOPNOTSUPP);
    let requests = SET_FLAGS.into_iter().chain([SET_ATTRIBUTES as u32]);
    let table = requests.map(|request| (request, unsupported)).collect();
    let by_request = Test::Equals { argument: 1, table, otherwise: Verdict::Allow };
    enforce(&compile(&ranges(&BTreeMap::from([(libc::SYS_ioctl, Decision::Ask(by_request))]))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn where_there_are_no_quotas_that_is_an_error() {
        let proc = std::fs::File::open("/proc").unwrap();
        assert!(are_enforced(&proc).is_err() && account(&proc, 1).is_err());
        assert!(membership(&proc).is_err());
    }
}
