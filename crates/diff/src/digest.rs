//! A change set in one number. Any write to a changed file changes it: the time of the last change of an inode cannot be set.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use sha2::{Digest, Sha256};

use crate::change::Change;
use crate::node::Kind;

/// Over everything a sandbox changed, in order.
#[must_use]
pub fn of(changes: &[Change]) -> String {
    let mut hash = Sha256::new();
    for change in changes {
        hash.update(stamp(change));
    }
    hex(&hash.finalize()[..16])
}

/// Of one change: what a decision about it is bound to.
#[must_use]
pub fn stamp(change: &Change) -> [u8; 32] {
    let mut hash = Sha256::new();
    let path = change.path.as_os_str().as_bytes();
    hash.update((path.len() as u64).to_le_bytes());
    hash.update(path);
    hash.update([change.kind as u8]);
    if let Some(after) = &change.after {
        let node = &after.node;
        for number in [u64::from(node.mode), u64::from(node.uid), u64::from(node.gid), node.size, node.rdev] {
            hash.update(number.to_le_bytes());
        }
        // What happens beneath a directory is told by the changes there.
        if node.kind != Kind::Directory {
            hash.update(node.ino.to_le_bytes());
            hash.update(node.ctime.0.to_le_bytes());
            hash.update(node.ctime.1.to_le_bytes());
        }
        if node.kind == Kind::Link
            && let Ok(target) = after.target()
        {
            hash.update(target.as_os_str().as_bytes());
        }
    }
    hash.finalize().into()
}

/// Eight digits that name a path.
#[must_use]
pub fn short(path: &OsStr) -> String {
    hex(&Sha256::digest(path.as_bytes())[..4])
}

#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    bytes.iter().flat_map(|b| [b >> 4, b & 15]).map(|d| DIGITS[usize::from(d)] as char).collect()
}
