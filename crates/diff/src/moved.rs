//! Finds where the sandbox has what it took away from a path, if that is not shown as a rename: build output, what lies outside the
//! project, and what a file was moved over.
//!
//! A move keeps the bytes and the modification time. Bytes alone tell nothing: a build puts copies of sources where the project
//! ignores them, and a package manager installs what a project had a copy of. Such copies have a time of their own.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::io;
use std::path::PathBuf;

use sha2::{Digest, Sha256};

use crate::change::{Change, ChangeKind, Hash, State};
use crate::content;
use crate::node::{Kind, LONG_AGO, Time};
use crate::rename::are_alike;

/// As much of a file as is read to tell most files apart.
const BEGINNING: usize = 64 << 10;
/// Beyond this, size, time and beginning are enough.
const LONGEST_COMPARED: u64 = 64 << 20;

/// Says of what went where it is now.
pub(crate) fn mark(changes: &mut [Change]) {
    let mut gone: HashMap<Key, Vec<usize>> = HashMap::new();
    for (index, change) in changes.iter().enumerate() {
        if let Some(key) = change.before.as_ref().filter(|_| takes_away(change)).and_then(key) {
            gone.entry(key).or_default().push(index);
        }
    }
    if gone.is_empty() {
        return;
    }
    let mut contents = Contents::default();
    let mut places: Vec<(usize, PathBuf)> = Vec::new();
    for (index, change) in changes.iter().enumerate() {
        let Some(after) = change.after.as_ref() else { continue };
        let Some(candidates) = key(after).and_then(|key| gone.get(&key)) else { continue };
        for old in candidates.iter().copied().filter(|old| *old != index && !is_for_renames(&changes[*old], change)) {
            let Some(before) = &changes[old].before else { continue };
            // Many links lead to one place, but few of them have the same name.
            if after.node.kind == Kind::Link && changes[old].path.file_name() != change.path.file_name() {
                continue;
            }
            if contents.are_same((old, before), (index, after)) {
                places.push((old, change.path.clone()));
            }
        }
    }
    for (old, place) in places {
        changes[old].moved_to.push(place);
    }
}

/// Whether nothing of the kind that was at a path is there any more.
fn takes_away(change: &Change) -> bool {
    let kind = |state: &Option<State>| state.as_ref().map(|s| s.node.kind);
    change.blocked.is_none() && change.kind != ChangeKind::Rename && kind(&change.before) != kind(&change.after)
}

/// Those are joined, or were not because their contents differ.
fn is_for_renames(gone: &Change, new: &Change) -> bool {
    let are_files = gone.kind == ChangeKind::Delete && matches!(new.kind, ChangeKind::Add | ChangeKind::Rename);
    are_files && new.shown_kind() == Kind::File && are_alike(gone, new)
}

/// What has to be equal before anything is read.
type Key = (Kind, u64, Time);

/// `None` for what has no content. Not every backend lets a link keep its time.
fn key(state: &State) -> Option<Key> {
    let node = &state.node;
    match node.kind {
        Kind::File if node.size > 0 => Some((Kind::File, node.size, node.mtime)),
        Kind::Link => Some((Kind::Link, node.size, LONG_AGO)),
        _ => None,
    }
}

/// How files begin, by the numbers of their changes and sides. Each is looked into once, however many there are of its size.
#[derive(Default)]
struct Contents {
    beginnings: HashMap<(usize, bool), Option<Hash>>,
}

impl Contents {
    /// What cannot be read is told by its size and time.
    fn are_same(&mut self, (old, before): (usize, &State), (new, after): (usize, &State)) -> bool {
        if before.at == after.at {
            return true;
        }
        if after.node.kind == Kind::Link {
            return before.has_same_content(after).unwrap_or(true);
        }
        match (self.beginning((old, true), before), self.beginning((new, false), after)) {
            (Some(one), Some(two)) if one != two => false,
            (Some(_), Some(_)) if (BEGINNING as u64 + 1..=LONGEST_COMPARED).contains(&after.node.size) => {
                content::is_same(&before.at, &after.at, after.node.size).unwrap_or(true)
            }
            _ => true,
        }
    }

    fn beginning(&mut self, whose: (usize, bool), state: &State) -> Option<Hash> {
        match self.beginnings.entry(whose) {
            Entry::Occupied(known) => *known.get(),
            Entry::Vacant(unknown) => *unknown.insert(read(state).ok()),
        }
    }
}

fn read(state: &State) -> io::Result<Hash> {
    Ok(Sha256::digest(content::beginning(&state.at, BEGINNING)?).into())
}
