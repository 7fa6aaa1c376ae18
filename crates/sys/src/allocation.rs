//! Calls that allocate disk space without writing to it: one of them takes in a moment what would take seconds to write, so nobody who
//! looks now and then could hold a limit against them.

use std::collections::BTreeMap;
use std::io;

use crate::bpf::{Decision, Test, Verdict};
use crate::seccomp::{compile, enforce, ranges};

/// These modes of `fallocate` give space back, or take none: punching holes, collapsing and inserting ranges.
const FREEING: u32 = 0x02 | 0x08 | 0x20;

/// `XFS_IOC_RESVSP`, `_RESVSP64` and `_ZERO_RANGE`, which other file systems know too: the older names of `fallocate`.
const OLDER: [u32; 3] = [0x4030_5828, 0x4030_582A, 0x4030_5839];

/// For the calling thread and everything it will start; needs `no_new_privs`. The answer is that of a file system that cannot allocate
/// beforehand, as many cannot. The C library then writes zeros for `posix_fallocate`.
pub fn forbid() -> io::Result<()> {
    enforce(&filter())
}

fn filter() -> Vec<libc::sock_filter> {
    let unsupported = Verdict::Errno(libc::EOPNOTSUPP);
    let by_mode = Test::AnyBit { argument: 1, mask: FREEING, then: Verdict::Allow, otherwise: unsupported };
    let table = OLDER.map(|request| (request, Verdict::Errno(libc::ENOTTY))).to_vec();
    let by_request = Test::Equals { argument: 1, table, otherwise: Verdict::Allow };
    let decisions = BTreeMap::from([(libc::SYS_fallocate, Decision::Ask(by_mode)), (libc::SYS_ioctl, Decision::Ask(by_request))]);
    compile(&ranges(&decisions))
}
