//! Access control lists, as the kernel hands them out: an entry for each user and group, and three that are the mode.
//!
//! Those three change whenever the mode does, so a list is compared without them, and gets them back from the mode it goes with.

use std::fmt;

pub const ACCESS: &str = "system.posix_acl_access";
/// What new files in a directory get.
pub const DEFAULT: &str = "system.posix_acl_default";

/// The version, before the entries.
const HEADER: usize = 4;
/// Tag (u16), permissions (u16), id (u32).
const ENTRY: usize = 8;
const USER_OBJ: u16 = 0x01;
const USER: u16 = 0x02;
const GROUP_OBJ: u16 = 0x04;
const GROUP: u16 = 0x08;
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

/// Whom an entry is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whom {
    Owner,
    User(u32),
    OwningGroup,
    Group(u32),
    Mask,
    Other,
}

/// One line of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    pub whom: Whom,
    permissions: u16,
}

/// All entries, in the order of the list.
#[must_use]
pub fn entries(acl: &[u8]) -> Vec<Entry> {
    let entry = |bytes: &[u8]| {
        let id = u32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]);
        let whom = match u16::from_le_bytes([bytes[0], bytes[1]]) {
            USER_OBJ => Whom::Owner,
            USER => Whom::User(id),
            GROUP_OBJ => Whom::OwningGroup,
            GROUP => Whom::Group(id),
            MASK => Whom::Mask,
            OTHER => Whom::Other,
            _ => return None,
        };
        Some(Entry { whom, permissions: u16::from_le_bytes([bytes[2], bytes[3]]) })
    };
    acl.get(HEADER..).unwrap_or_default().chunks_exact(ENTRY).filter_map(entry).collect()
}

/// The users and groups that a list names.
#[must_use]
pub fn named(acl: &[u8]) -> Vec<Entry> {
    entries(acl).into_iter().filter(|entry| matches!(entry.whom, Whom::User(_) | Whom::Group(_))).collect()
}

/// As `setfacl --set` takes it: `u::rw-,u:12:rwx,g::r--,m::rwx,o::r--`.
#[must_use]
pub fn short(acl: &[u8]) -> String {
    let short = |entry: &Entry| {
        let whom = match entry.whom {
            Whom::Owner => "u:".to_owned(),
            Whom::User(id) => format!("u:{id}"),
            Whom::OwningGroup => "g:".to_owned(),
            Whom::Group(id) => format!("g:{id}"),
            Whom::Mask => "m:".to_owned(),
            Whom::Other => "o:".to_owned(),
        };
        format!("{whom}:{}", entry.permissions())
    };
    entries(acl).iter().map(short).collect::<Vec<_>>().join(",")
}

impl Entry {
    fn permissions(&self) -> String {
        let letters = [(4, 'r'), (2, 'w'), (1, 'x')];
        letters.into_iter().map(|(bit, letter)| if self.permissions & bit != 0 { letter } else { '-' }).collect()
    }
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.whom, self.permissions())
    }
}

impl fmt::Display for Whom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Owner => f.write_str("the owner"),
            Self::User(id) => write!(f, "user {id}"),
            Self::OwningGroup => f.write_str("the group"),
            Self::Group(id) => write!(f, "group {id}"),
            Self::Mask => f.write_str("all but the owner and others"),
            Self::Other => f.write_str("others"),
        }
    }
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
    fn a_list_is_written_as_setfacl_takes_it() {
        assert_eq!(short(&list(6, 7, 4)), "u::rw-,u:1000:rwx,g::r--,m::rwx,o::r--");
        assert_eq!(short(b"no list"), "");
    }

    #[test]
    fn what_is_no_list_is_left_alone() {
        for bytes in [&b""[..], b"abc", &[2, 0, 0, 0, 1]] {
            assert_eq!(fit(bytes, 0o777), bytes);
        }
    }
}
