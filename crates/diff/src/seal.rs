//! Reads what a sandbox changed once and for all, where it may go on changing while it is looked at.

use std::collections::HashMap;

use crate::change::{Change, State};
use crate::node::Kind;
use crate::unreadable::Unreadable;

/// Files up to here are kept in memory, so that flags, lines and merges are of the very bytes that were hashed...
const LONGEST_KEPT: u64 = 1 << 20;
/// ... and all of them together up to here. The rest is read again when it is needed, and compared with its hash.
const MOST_KEPT: u64 = 64 << 20;

/// Seals what the changes lead to. What could not be is returned, unless it is closed to this user: nobody can apply that either.
pub(crate) fn seal(changes: &mut [Change]) -> Vec<Unreadable> {
    let mut room = MOST_KEPT;
    let mut names: HashMap<(u64, u64), State> = HashMap::new();
    let mut unreadable = Vec::new();
    for change in changes {
        let Some(after) = &mut change.after else { continue };
        let has_names = after.node.kind == Kind::File && after.node.nlink > 1;
        let inode = (after.node.dev, after.node.ino);
        if let Some(first) = names.get(&inode).filter(|_| has_names) {
            after.seal_like(first);
            continue;
        }
        let most = LONGEST_KEPT.min(room);
        match after.seal(most) {
            Ok(()) if after.node.kind == Kind::File && after.node.size <= most => room -= after.node.size,
            Ok(()) => {}
            Err(error) if error.is_closed() => {}
            Err(error) => unreadable.push(Unreadable { path: change.path.clone(), ..error }),
        }
        if has_names {
            names.insert(inode, after.clone());
        }
    }
    unreadable
}
