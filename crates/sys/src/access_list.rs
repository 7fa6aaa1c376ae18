//! Access control lists as the kernel hands them out in extended attributes.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

/// Why a list with unknown ids cannot be copied, and what can be done.
pub const STRANGERS: &str = "its access control list names users or groups whose ids cannot be read in a user namespace of one \
                             user; remove the list inside the sandbox (setfacl -b FILE), or let root make the sandbox";

/// Four bytes of version, then a tag, rights and an id for each entry.
const HEADER: usize = 4;
const ENTRY: usize = 8;
/// The tags of a named user and of a named group. Only these have an id.
const NAMED: [[u8; 2]; 2] = [[2, 0], [8, 0]];

/// Whether this is an access control list that names an id which this user namespace does not have. The kernel shows such an id
/// as the highest number, so it cannot be written anywhere else.
#[must_use]
pub fn has_strangers(name: &OsStr, value: &[u8]) -> bool {
    let is_list = name.as_bytes().starts_with(b"system.posix_acl_");
    let is_stranger = |entry: &[u8]| NAMED.iter().any(|tag| entry.starts_with(tag)) && entry.ends_with(&[0xff; 4]);
    is_list && value.get(HEADER..).is_some_and(|entries| entries.chunks_exact(ENTRY).any(is_stranger))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_named_entries_can_be_strangers() {
        let list = |tag: u8, id: [u8; 4]| [&[2, 0, 0, 0, tag, 0, 6, 0][..], &id].concat();
        let access = OsStr::new("system.posix_acl_access");
        assert!(has_strangers(access, &list(2, [0xff; 4])));
        assert!(has_strangers(OsStr::new("system.posix_acl_default"), &list(8, [0xff; 4])));
        // The owner's, the group's, the mask and the others' have none.
        assert!([1, 4, 0x10, 0x20].iter().all(|tag| !has_strangers(access, &list(*tag, [0xff; 4]))));
        assert!(!has_strangers(access, &list(2, [1, 0, 0, 0])));
        assert!(!has_strangers(OsStr::new("user.x"), &list(2, [0xff; 4])));
        assert!(!has_strangers(access, b""));
    }
}
