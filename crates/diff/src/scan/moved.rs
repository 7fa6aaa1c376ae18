//! Tells files that the sandbox renamed from copies of what reality deleted.
//!
//! Both are marked as copied up, and reality has neither. But what was renamed is missing where it was.

use std::collections::HashSet;

use crate::change::{Base, Change};
use crate::node::{Kind, Node, Time};
use crate::seen::is_origin;

/// A rename keeps all of this.
fn stamp(node: &Node) -> (Kind, u64, Time) {
    (node.kind, node.size, node.mtime)
}

/// Lets additions count as such that one of the sandbox's deletions explains.
pub(super) fn explain(changes: &mut [Change]) {
    let is_open = |c: &Change| c.base == Base::Unknown && c.reality.is_none() && c.before.is_none() && c.deletion.is_none();
    if !changes.iter().any(is_open) {
        return;
    }
    let deleted = || changes.iter().filter(|c| c.after.is_none()).filter_map(|c| Some((&c.path, c.before.as_ref()?)));
    let stamps: HashSet<_> = deleted().map(|(_, before)| stamp(&before.node)).collect();
    let is_explained = |change: &Change| {
        let after = change.after.as_ref();
        after.is_some_and(|a| stamps.contains(&stamp(&a.node)) || deleted().any(|(path, _)| is_origin(a.marks(), &a.at, path)))
    };
    let explained: Vec<bool> = changes.iter().map(|c| is_open(c) && is_explained(c)).collect();
    for (change, _) in changes.iter_mut().zip(explained).filter(|(_, is_explained)| *is_explained) {
        change.base = Base::Reality;
    }
}
