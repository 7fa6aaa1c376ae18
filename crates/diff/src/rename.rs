//! Finds renames: a deletion and an addition of much the same content are one change to a reader.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::OsStr;
use std::path::Path;
use std::thread::Builder;

use sha2::{Digest, Sha256};

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
pub(crate) fn are_alike(gone: &Change, new: &Change) -> bool {
    (gone.ignored, gone.outside) == (new.ignored, new.outside)
}

/// Equal bytes. Of several that fit, one with the same name is preferred, and of those the nearest.
fn exact(changes: &[Change], gone: &[usize], new: &[usize]) -> Vec<(usize, usize, u8)> {
    let sizes = |indices: &[usize], side: Side| {
        indices.iter().filter_map(|i| side(&changes[*i])).map(|s| s.node.size).collect::<HashSet<u64>>()
    };
    let (before, after): (Side, Side) = (|c| c.before.as_ref(), |c| c.after.as_ref());
    let shared: HashSet<u64> = sizes(gone, before).intersection(&sizes(new, after)).copied().collect();
    // Each file is looked into once, however many there are of its size.
    let gone = beginnings(changes, gone, before, &shared);
    let new = beginnings(changes, new, after, &shared);
    let mut alike: HashMap<&Beginning, Alike<'_>> = HashMap::new();
    for (index, beginning) in &gone {
        alike.entry(beginning).or_default().add(*index, name_of(&changes[*index]));
    }
    let mut pairs = Vec::new();
    let mut rest = Vec::new();
    // All of the same name first, so that none of them is taken by a file of another name.
    for (index, beginning) in &new {
        let Some(candidates) = alike.get_mut(beginning) else { continue };
        let nearness = |old: usize| distance(&changes[old].path, &changes[*index].path);
        match candidates.take_named(name_of(&changes[*index]), nearness, |old| is_same(&changes[old], &changes[*index])) {
            Some(old) => pairs.push((old, *index, 100)),
            None => rest.push((*index, beginning)),
        }
    }
    for (index, beginning) in rest {
        let Some(candidates) = alike.get_mut(beginning) else { continue };
        let nearness = |old: usize| distance(&changes[old].path, &changes[index].path);
        let taken = candidates.take_any(nearness, |old| is_same(&changes[old], &changes[index]));
        pairs.extend(taken.map(|old| (old, index, 100)));
    }
    pairs
}

/// How many directories on the way to one path are not on the way to the other. `mv d e` moves everything in it by the same.
fn distance(one: &Path, two: &Path) -> usize {
    let (one, two): (Vec<&OsStr>, Vec<&OsStr>) = (one.iter().collect(), two.iter().collect());
    let shared = |pairs: &mut dyn Iterator<Item = (&&OsStr, &&OsStr)>| pairs.take_while(|(a, b)| a == b).count();
    let shortest = one.len().min(two.len());
    let first = shared(&mut one.iter().zip(&two));
    let last = shared(&mut one.iter().rev().zip(two.iter().rev())).min(shortest - first);
    one.len() + two.len() - 2 * (first + last)
}

/// How a file begins, and what else it must have in common with another one: nothing is moved between the project's work, its
/// build output and the rest of the system without saying so.
#[derive(PartialEq, Eq, Hash)]
struct Beginning {
    size: u64,
    ignored: bool,
    outside: bool,
    digest: [u8; 32],
}

/// As much of a file as is read to tell most files apart.
const BEGINNING: usize = 64 << 10;
/// From here on a second thread pays.
const WORTH_A_THREAD: usize = 512;

/// One side of a change.
type Side = fn(&Change) -> Option<&State>;

fn beginnings(changes: &[Change], indices: &[usize], side: Side, sizes: &HashSet<u64>) -> Vec<(usize, Beginning)> {
    let wanted = indices.iter().filter_map(|index| {
        let change = &changes[*index];
        let state = side(change).filter(|s| sizes.contains(&s.node.size))?;
        let beginning = Beginning { size: state.node.size, ignored: change.ignored, outside: change.outside, digest: [0; 32] };
        Some((*index, state.at.as_path(), beginning))
    });
    let mut first: Vec<(usize, &Path, Beginning)> = wanted.collect();
    if first.len() < WORTH_A_THREAD {
        return read(&first);
    }
    let second = first.split_off(first.len() / 2);
    std::thread::scope(|scope| {
        let other = Builder::new().spawn_scoped(scope, || read(&second));
        let mut all = read(&first);
        // If there can be no more threads, it takes longer.
        all.extend(other.map_or_else(|_| read(&second), |other| other.join().unwrap_or_default()));
        all
    })
}

/// What cannot be read is like nothing else.
fn read(files: &[(usize, &Path, Beginning)]) -> Vec<(usize, Beginning)> {
    let digested = files.iter().filter_map(|(index, path, beginning)| {
        let bytes = content::beginning(path, BEGINNING).ok()?;
        Some((*index, Beginning { digest: Sha256::digest(bytes).into(), ..*beginning }))
    });
    digested.collect()
}

/// Deleted files that begin alike, in the order of their paths. What was taken is skipped when it is met.
#[derive(Default)]
struct Alike<'c> {
    by_name: HashMap<&'c OsStr, VecDeque<usize>>,
    all: VecDeque<usize>,
    taken: HashSet<usize>,
}

impl<'c> Alike<'c> {
    /// Large files that only begin alike are not worth comparing each with each.
    const MOST_COMPARED: usize = 50;

    fn add(&mut self, index: usize, name: &'c OsStr) {
        self.by_name.entry(name).or_default().push_back(index);
        self.all.push_back(index);
    }

    fn take_named(&mut self, name: &OsStr, nearness: impl Fn(usize) -> usize, fits: impl Fn(usize) -> bool) -> Option<usize> {
        let taken = &self.taken;
        let found = self.by_name.get_mut(name).and_then(|queue| take_from(queue, taken, nearness, fits))?;
        self.taken.insert(found);
        Some(found)
    }

    fn take_any(&mut self, nearness: impl Fn(usize) -> usize, fits: impl Fn(usize) -> bool) -> Option<usize> {
        let found = take_from(&mut self.all, &self.taken, nearness, fits)?;
        self.taken.insert(found);
        Some(found)
    }
}

/// The nearest of the first that are free and fit.
fn take_from(
    queue: &mut VecDeque<usize>,
    taken: &HashSet<usize>,
    nearness: impl Fn(usize) -> usize,
    fits: impl Fn(usize) -> bool,
) -> Option<usize> {
    while queue.front().is_some_and(|index| taken.contains(index)) {
        queue.pop_front();
    }
    let free = queue.iter().enumerate().filter(|(_, index)| !taken.contains(index)).take(Alike::MOST_COMPARED);
    let mut free: Vec<(usize, usize)> = free.map(|(position, index)| (position, *index)).collect();
    free.sort_by_key(|(_, index)| nearness(*index));
    let position = free.into_iter().find(|(_, index)| fits(*index))?.0;
    queue.remove(position)
}

/// Whether two files that begin alike are the same to their ends.
fn is_same(gone: &Change, new: &Change) -> bool {
    let (Some(before), Some(after)) = (&gone.before, &new.after) else { return false };
    after.node.size <= BEGINNING as u64 || content::is_same(&before.at, &after.at, after.node.size).unwrap_or(false)
}

fn name_of(change: &Change) -> &OsStr {
    change.path.file_name().unwrap_or_default()
}

/// Renamed and edited.
fn edited(changes: &[Change], gone: &[usize], new: &[usize], taken: &[(usize, usize, u8)]) -> Vec<(usize, usize, u8)> {
    let free = |all: &[usize], side: fn(&(usize, usize, u8)) -> usize| {
        let taken: HashSet<usize> = taken.iter().map(side).collect();
        all.iter().copied().filter(|i| !taken.contains(i)).collect::<Vec<usize>>()
    };
    let (gone, new) = (free(gone, |t| t.0), free(new, |t| t.1));
    if gone.len() * new.len() > MOST_COMPARED {
        return Vec::new();
    }
    let text = |state: Option<&State>| {
        let state = state.filter(|s| s.node.size <= LONGEST_COMPARED)?;
        state.bytes().ok().filter(|bytes| !whatif_patch::is_binary(bytes)).map(Cow::into_owned)
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
    scored.sort_by_cached_key(|(old, new, similarity)| {
        let (gone, new_one) = (&changes[*old], &changes[*new]);
        let place = (name_of(gone) != name_of(new_one), distance(&gone.path, &new_one.path));
        (std::cmp::Reverse(*similarity), place, *old, *new)
    });
    let mut pairs: Vec<(usize, usize, u8)> = Vec::new();
    for candidate in scored {
        if !pairs.iter().any(|p| p.0 == candidate.0 || p.1 == candidate.1) {
            pairs.push(candidate);
        }
    }
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_moved_with_its_directory_is_nearest() {
        let far = |one: &str, two: &str| distance(Path::new(one), Path::new(two));
        assert_eq!(far("/p/d/1", "/p/d/1"), 0);
        assert_eq!(far("/p/d/1", "/p/dd/1"), 2);
        assert!(far("/p/d/e/1", "/p/dd/e/1") < far("/p/d/1", "/p/dd/e/1"));
        assert!(far("/p/d/1", "/p/dd/1") < far("/p/d/e/1", "/p/dd/1"));
        assert_eq!(far("/p/a/a", "/p/a"), 1);
    }
}
