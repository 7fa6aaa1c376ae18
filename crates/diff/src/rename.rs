//! Finds renames: a deletion and an addition of much the same content are one change to a reader.

use std::collections::HashMap;

use crate::change::{Base, Change, ChangeKind, State};
use crate::content;
use crate::node::Kind;

/// Below this, two files have less in common than not.
const ENOUGH: u8 = 50;
/// Pairs compared by their text. Renaming more files and editing them all at once is shown as deletions and additions.
const MOST_COMPARED: usize = 2500;
const LONGEST_COMPARED: u64 = 1 << 20;

/// Joins deletions with additions. What is joined loses its deletion: the addition carries it.
pub(crate) fn join(changes: &mut Vec<Change>) {
    let candidates = |kind: ChangeKind| {
        let fits = move |c: &Change| c.kind == kind && c.blocked.is_none() && is_file(c.before.as_ref().or(c.after.as_ref()));
        changes.iter().enumerate().filter(move |(_, c)| fits(c)).map(|(i, _)| i).collect::<Vec<usize>>()
    };
    let (gone, new) = (candidates(ChangeKind::Delete), candidates(ChangeKind::Add));
    if gone.is_empty() || new.is_empty() {
        return;
    }
    let mut pairs = exact(changes, &gone, &new);
    pairs.extend(edited(changes, &gone, &new, &pairs));
    for (old, new, similarity) in &pairs {
        let deletion = changes[*old].clone();
        let change = &mut changes[*new];
        change.kind = ChangeKind::Rename;
        change.similarity = Some(*similarity);
        change.before.clone_from(&deletion.before);
        if change.base == Base::Reality {
            change.base = deletion.base;
        }
        change.deletion = Some(Box::new(deletion));
    }
    let mut taken: Vec<usize> = pairs.iter().map(|p| p.0).collect();
    taken.sort_unstable();
    let mut index = 0;
    changes.retain(|_| {
        index += 1;
        taken.binary_search(&(index - 1)).is_err()
    });
}

fn is_file(state: Option<&State>) -> bool {
    state.is_some_and(|s| s.node.kind == Kind::File && s.node.size > 0)
}

/// Nothing is moved between the project's work, its build output and the rest of the system without saying so.
fn are_alike(gone: &Change, new: &Change) -> bool {
    (gone.ignored, gone.outside) == (new.ignored, new.outside)
}

/// Equal bytes. Of several that fit, one with the same name is preferred.
fn exact(changes: &[Change], gone: &[usize], new: &[usize]) -> Vec<(usize, usize, u8)> {
    let mut by_size: HashMap<u64, Vec<usize>> = HashMap::new();
    for index in gone {
        if let Some(before) = &changes[*index].before {
            by_size.entry(before.node.size).or_default().push(*index);
        }
    }
    let mut pairs = Vec::new();
    for index in new {
        let Some(after) = &changes[*index].after else { continue };
        let Some(same_size) = by_size.get_mut(&after.node.size) else { continue };
        let name = changes[*index].path.file_name();
        same_size.sort_by_key(|g| changes[*g].path.file_name() != name);
        let is_same = |g: &usize| {
            let before = changes[*g].before.as_ref().filter(|_| are_alike(&changes[*g], &changes[*index]));
            before.is_some_and(|b| content::is_same(&b.at, &after.at, after.node.size).unwrap_or(false))
        };
        // Thousands of files of one size, all different, are not worth comparing each with each.
        if let Some(position) = same_size.iter().take(50).position(is_same) {
            pairs.push((same_size.remove(position), *index, 100));
        }
    }
    pairs
}

/// Renamed and edited.
fn edited(changes: &[Change], gone: &[usize], new: &[usize], taken: &[(usize, usize, u8)]) -> Vec<(usize, usize, u8)> {
    let free = |all: &[usize], side: fn(&(usize, usize, u8)) -> usize| {
        all.iter().copied().filter(|i| !taken.iter().any(|t| side(t) == *i)).collect::<Vec<usize>>()
    };
    let (gone, new) = (free(gone, |t| t.0), free(new, |t| t.1));
    if gone.len() * new.len() > MOST_COMPARED {
        return Vec::new();
    }
    let text = |state: Option<&State>| {
        let state = state.filter(|s| s.node.size <= LONGEST_COMPARED)?;
        content::read(&state.at).ok().filter(|bytes| !whatif_patch::is_binary(bytes))
    };
    let before: Vec<_> = gone.iter().map(|i| (*i, text(changes[*i].before.as_ref()))).collect();
    let mut scored = Vec::new();
    for index in new {
        let Some(after) = text(changes[index].after.as_ref()) else { continue };
        for (old, before) in before.iter().filter_map(|(i, b)| Some((*i, b.as_ref()?))) {
            // Neither can be half of the other then.
            if !are_alike(&changes[old], &changes[index]) || before.len().min(after.len()) * 2 < before.len().max(after.len()) {
                continue;
            }
            let similarity = whatif_patch::similarity(before, &after).min(99);
            if similarity >= ENOUGH {
                scored.push((old, index, similarity));
            }
        }
    }
    scored.sort_by_key(|(old, new, similarity)| (std::cmp::Reverse(*similarity), *old, *new));
    let mut pairs: Vec<(usize, usize, u8)> = Vec::new();
    for candidate in scored {
        if !pairs.iter().any(|p| p.0 == candidate.0 || p.1 == candidate.1) {
            pairs.push(candidate);
        }
    }
    pairs
}
