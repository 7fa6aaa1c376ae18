//! Ids outside that no other sandbox of root has while it runs, so that what the kernel counts per user is counted for it alone.
//!
//! Nothing on disk has them: heads are mounted with their owners mapped. A sandbox gets others each time it starts.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};

use whatif_sys::byte_lock;
use whatif_types::SandboxId;
use whatif_types::boot::OWN_IDS;

/// After those that all have in common, below the sign bit: some file systems take no others as options.
const FIRST: u32 = 0x7F00_0000;
const RANGES: u32 = FILES * RANGES_PER_FILE;
const FILES: u32 = 255;
/// The ids that supervisors have, in the order of the ranges.
const SUPERVISORS: u32 = FIRST + RANGES * OWN_IDS;
const DIRECTORY: &str = "/run/whatif";
/// A file `ids-N` in that directory stands for so many ranges, each byte of it for one. Whoever holds the lock on a byte has its
/// range on this machine. Several files, because the kernel walks the list of all locks of a file each time one is taken or a
/// descriptor is closed: with a single file and a thousand sandboxes, every command that started walked it several times.
const RANGES_PER_FILE: u32 = 16;

/// A range that is taken as long as the lock is held.
#[derive(Debug)]
pub struct Reserved {
    number: u32,
    lock: Option<File>,
}

impl Reserved {
    /// The ranges are tried from one that the id chooses. Where they cannot be locked that one is taken: two of them are rarely the
    /// same.
    #[must_use]
    pub fn for_sandbox(id: &SandboxId) -> Self {
        let first = id.as_str().bytes().fold(0, |sum: u32, byte| sum.wrapping_mul(31).wrapping_add(byte.into())) % RANGES;
        for file_number in (0..FILES).map(|n| (first / RANGES_PER_FILE + n) % FILES) {
            let Ok(file) = open(file_number) else { break };
            let ranges = (0..RANGES_PER_FILE).map(|n| (first + n) % RANGES_PER_FILE);
            if let Some(byte) = ranges.into_iter().find(|byte| byte_lock::take(&file, (*byte).into()).is_ok()) {
                return Self { number: file_number * RANGES_PER_FILE + byte, lock: Some(file) };
            }
        }
        Self { number: first, lock: None }
    }

    #[must_use]
    pub fn base(&self) -> u32 {
        FIRST + self.number * OWN_IDS
    }

    #[must_use]
    pub fn lock(&self) -> Option<BorrowedFd<'_>> {
        self.lock.as_ref().map(AsFd::as_fd)
    }
}

fn open(file_number: u32) -> io::Result<File> {
    let path = format!("{DIRECTORY}/ids-{file_number}");
    let open = || File::options().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path);
    match open() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => match DirBuilder::new().mode(0o700).create(DIRECTORY) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            _ => open(),
        },
        other => other,
    }
}

/// The id of root's supervisor of a sandbox that has this base. It is not one of those inside, who could use up what is counted for
/// it, and no one else's.
#[must_use]
pub fn of_supervisor(base: u32) -> u32 {
    let number = base.checked_sub(FIRST).map(|offset| offset / OWN_IDS).filter(|n| *n < RANGES);
    SUPERVISORS + number.unwrap_or(RANGES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_supervisors_do_not_overlap_and_stay_below_the_sign_bit() {
        let last = FIRST + (RANGES - 1) * OWN_IDS;
        const { assert!(super::super::COMMON_IDS + super::super::COUNT <= FIRST) };
        assert!(last + OWN_IDS <= of_supervisor(FIRST));
        assert_eq!(of_supervisor(last), of_supervisor(FIRST) + RANGES - 1);
        assert_eq!(of_supervisor(0), of_supervisor(FIRST) + RANGES, "of one that has no range");
        assert!(of_supervisor(0) < 1 << 31);
    }
}
