//! Access control lists, as the kernel hands them out: an entry for each user and group, and three that are the mode.
//!
//! Those three change whenever the mode does, so a list is compared without them, and gets them back from the mode it goes with.

pub const ACCESS: &str = "system.posix_acl_access";

/// The version, before the entries.
const HEADER: usize = 4;
/// Tag (u16), permissions (u16), id (u32).
const ENTRY: usize = 8;
const USER_OBJ: u16 = 0x01;
const GROUP_OBJ: u16 = 0x04;
const MASK: u16 = 0x10;
const OTHER: u16 = 0x20;

/// The list without what the mode says.
#[must_use]
pub fn without_mode(acl: &[u8]) -> Vec<u8> {
    fit(acl, 0)
}

/// The list as it goes with a mode: what `chmod` makes of it.
#[must_use]
pub fn fit(acl: &[u8], mode: u32) -> Vec<u8> {
    let mut acl = acl.to_vec();
    let tag_of = |entry: &[u8]| u16::from_le_bytes([entry[0], entry[1]]);
    let Some(entries) = acl.get_mut(HEADER..) else { return acl };
    let has_mask = entries.chunks_exact(ENTRY).any(|entry| tag_of(entry) == MASK);
    for entry in entries.chunks_exact_mut(ENTRY) {
        let shift = match tag_of(entry) {
            USER_OBJ => 6,
            MASK => 3,
            // Without a mask the group's own entry is what the mode shows.
            GROUP_OBJ if !has_mask => 3,
            OTHER => 0,
            _ => continue,
        };
        let permissions = ((mode >> shift) & 0o7) as u16;
        entry[2..4].copy_from_slice(&permissions.to_le_bytes());
    }
    acl
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `u::rw-,u:1000:rwx,g::r--,m::rwx,o::r--`
    fn list(owner: u8, mask: u8, other: u8) -> Vec<u8> {
        let entry = |tag: u8, permissions: u8, id: u32| [&[tag, 0, permissions, 0][..], &id.to_le_bytes()].concat();
        let none = u32::MAX;
        [
            vec![2, 0, 0, 0],
            entry(1, owner, none),
            entry(2, 7, 1000),
            entry(4, 4, none),
            entry(0x10, mask, none),
            entry(0x20, other, none),
        ]
        .concat()
    }

    #[test]
    fn a_mode_changes_three_entries_and_no_other() {
        assert_eq!(fit(&list(6, 7, 4), 0o640), list(6, 4, 0));
        assert_eq!(fit(&without_mode(&list(6, 7, 4)), 0o674), list(6, 7, 4));
        assert_eq!(without_mode(&list(6, 7, 4)), without_mode(&list(7, 1, 0)));
    }

    #[test]
    fn what_is_no_list_is_left_alone() {
        for bytes in [&b""[..], b"abc", &[2, 0, 0, 0, 1]] {
            assert_eq!(fit(bytes, 0o777), bytes);
        }
    }
}
