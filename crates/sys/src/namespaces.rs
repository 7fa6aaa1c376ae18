//! `unshare`, for namespaces only, and what can be told about the present ones.

use std::os::unix::fs::MetadataExt;

use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Leaves the present namespaces of these kinds for new ones.
pub fn unshare(kinds: UnshareFlags) -> rustix::io::Result<()> {
    // SAFETY: unsharing the descriptor table is the only unsound use, and it is taken out.
    unsafe { unshare_unsafe(kinds - UnshareFlags::FILES) }
}

/// Gains every right over the caller's own files, even those it has closed to itself, by way of a user namespace in which it is
/// itself. For a single-threaded process that has nothing to do with other namespaces any more.
pub fn own_everything(uid: u32, gid: u32) -> std::io::Result<()> {
    unshare(UnshareFlags::NEWUSER)?;
    std::fs::write("/proc/self/setgroups", "deny")?;
    std::fs::write("/proc/self/uid_map", format!("{uid} {uid} 1\n"))?;
    std::fs::write("/proc/self/gid_map", format!("{gid} {gid} 1\n"))
}

/// The number that the kernel gives to the user namespace that it starts with.
const FIRST_USER_NAMESPACE: u64 = 0xEFFF_FFFD;

/// Whether an id is known in our user namespace, and with it all below it, as in the first one of the machine.
#[must_use]
pub fn knows_ids_to(last: u32) -> bool {
    if std::fs::metadata("/proc/self/ns/user").is_ok_and(|namespace| namespace.ino() == FIRST_USER_NAMESPACE) {
        return true;
    }
    std::fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| maps_to(&map, last))
}

/// One line for each range: its first id here, the first outside, how many.
fn maps_to(map: &str, last: u32) -> bool {
    let ranges = map.lines().map(|line| line.split_whitespace().map(str::parse::<u64>).collect::<Result<Vec<_>, _>>());
    ranges.flatten().any(|range| matches!(range[..], [0, _, count] if count > u64::from(last)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_one_range_from_zero_on_knows_all_ids_to_the_last() {
        assert!(maps_to("         0          0 4294967295\n", 0x7FFF_0000));
        assert!(!maps_to("         0       1000          1\n         1     100000      65536\n", 0x7FFF_0000));
        assert!(maps_to("0 1000 1\n", 0));
        assert!(!maps_to("", 0));
    }
}
