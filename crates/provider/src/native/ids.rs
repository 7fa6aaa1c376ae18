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
const RANGES: u32 = 4080;
/// The ids that supervisors have, in the order of the ranges.
const SUPERVISORS: u32 = FIRST + RANGES * OWN_IDS;
/// Each byte of it stands for a range. Who holds the lock on one has that range, on this machine.
const DIRECTORY: &str = "/run/whatif";
const FILE: &str = "/run/whatif/ids";

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
        let unlocked = Self { number: first, lock: None };
        let Ok(file) = open() else { return unlocked };
        let free = (0..RANGES).map(|n| (first + n) % RANGES).find(|n| byte_lock::take(&file, (*n).into()).is_ok());
        free.map_or(unlocked, |number| Self { number, lock: Some(file) })
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

fn open() -> io::Result<File> {
    let open = || File::options().read(true).write(true).create(true).truncate(false).mode(0o600).open(FILE);
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
