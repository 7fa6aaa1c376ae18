//! What was in a directory that a sandbox deleted or renamed, in a number or two.
//!
//! Of what goes with its directory nothing is kept, however much it is. But when reality gets the directory back, as an undo gives
//! it back, everything in it is new to whoever looks at inodes; the first number tells that all of it is as it was. A `git switch`
//! there and back writes the same with other times: the second number tells that, where there was not too much to read.

use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use sha2::{Digest, Sha256};
use whatif_overlay::Format;

use super::{Bases, MOST_HASHED, Made, writer};
use crate::attributes;
use crate::change::{Base, Change, State};
use crate::node::{Kind, Node, Time};

/// How long a number is.
const LENGTH: usize = 32;

/// By what a file is recognized.
#[derive(Clone, Copy, PartialEq)]
enum By {
    Times,
    Content,
}

/// Everything in reality at and below a deleted directory, as the sandbox found it. None if some of it is not what it started from.
/// `left` is how much may still be read.
pub(super) fn of_reality(top: &Change, sorted: &[Change], left: &mut u64) -> Option<Vec<u8>> {
    let below = &sorted[below(top, sorted)];
    let mut numbers = below.iter().all(|c| c.base == Base::Reality).then(|| digest(By::Times, top, below)).flatten()?;
    let size = size(below);
    if size <= *left {
        *left -= size;
        numbers.extend(digest(By::Content, top, below).unwrap_or_default());
    }
    Some(numbers)
}

/// When the last change came about that the sandbox may have seen in a directory before it deleted it.
pub(super) fn latest(top: &Change, sorted: &[Change]) -> Option<Time> {
    let all = std::iter::once(top).chain(&sorted[below(top, sorted)]);
    all.filter_map(|change| change.reality.as_ref()).map(|node| node.ctime).max()
}

/// Reality is still what the sandbox started from where all of a deleted directory is there again.
pub(crate) fn confirm(bases: &Bases, sorted: &mut [Change]) {
    for index in 0..sorted.len() {
        let top = &sorted[index];
        if top.after.is_some() || !top.is_directory() {
            continue;
        }
        let range = below(top, sorted);
        let is_doubted = |c: &Change| matches!(c.base, Base::Lost | Base::Unknown) && c.after.is_none();
        if !sorted[range.clone()].iter().any(is_doubted) {
            continue;
        }
        // Without a proof they stay in doubt.
        if bases.inventory(top).is_some_and(|known| is_there_again(&known, top, &sorted[range.clone()])) {
            for change in sorted[range].iter_mut().filter(|c| is_doubted(c)) {
                change.base = Base::Reality;
            }
        }
    }
}

fn is_there_again(known: &[u8], top: &Change, below: &[Change]) -> bool {
    let (by_times, by_content) = known.split_at(LENGTH.min(known.len()));
    digest(By::Times, top, below).is_some_and(|now| now == by_times)
        || (by_content.len() == LENGTH
            && size(below) <= MOST_HASHED
            && digest(By::Content, top, below).is_some_and(|now| now == by_content))
}

fn size(below: &[Change]) -> u64 {
    below.iter().filter_map(|c| c.reality.as_ref()).filter(|n| n.kind == Kind::File).map(|n| n.size).sum()
}

impl Bases {
    /// What is known of it. One that cannot be read proves nothing, as one that is not there.
    fn inventory(&self, top: &Change) -> Option<Vec<u8>> {
        self.said(self.find(&top.path).filter(|p| p.record.made != Made::InPlace)?).ok().flatten()
    }
}

/// Where the changes below a directory are.
pub(super) fn below(top: &Change, sorted: &[Change]) -> std::ops::Range<usize> {
    let prefix = [top.path.as_os_str().as_bytes(), b"/"].concat();
    let start = sorted.partition_point(|c| c.path.as_os_str().as_bytes() < prefix.as_slice());
    let length = sorted[start..].iter().take_while(|c| c.path.as_os_str().as_bytes().starts_with(&prefix)).count();
    start..start + length
}

/// None if some of it cannot be read.
fn digest(by: By, top: &Change, below: &[Change]) -> Option<Vec<u8>> {
    let mut hash = Sha256::new();
    for change in std::iter::once(top).chain(below) {
        let Some(node) = &change.reality else { continue };
        let path = change.path.as_os_str().as_bytes();
        let target = if node.kind == Kind::Link { std::fs::read_link(&change.path).ok()? } else { PathBuf::new() };
        for text in [path, target.as_os_str().as_bytes()] {
            hash.update((text.len() as u64).to_le_bytes());
            hash.update(text);
        }
        // Only where there are some: most have none, and what earlier versions wrote stays true.
        if node.kind != Kind::Link {
            for (name, value) in attributes::of(&change.path, Format::None).ok()? {
                for text in [name.as_bytes(), &value] {
                    hash.update((text.len() as u64).to_le_bytes());
                    hash.update(text);
                }
            }
        }
        hash.update([node.kind as u8]);
        for number in looks(by, node) {
            hash.update(number.to_le_bytes());
        }
        if by == By::Content && node.kind == Kind::File {
            let state = State::new(node.clone(), change.path.clone(), Format::None);
            hash.update(writer::hash(&state, MOST_HASHED).ok()??);
            // Read while it was written to: neither the old state nor the new one.
            Node::of(&change.path).ok()?.filter(|now| now.is_untouched_since(node))?;
        }
    }
    Some(hash.finalize().to_vec())
}

/// What an undo gives back. The size of a directory depends on its past, and what happens in it shows in its time.
fn looks(by: By, node: &Node) -> [u64; 6] {
    let size = if node.kind == Kind::File { node.size } else { 0 };
    let mtime = if node.kind == Kind::File && by == By::Times { node.mtime } else { (0, 0) };
    [node.mode.into(), node.uid.into(), node.gid.into(), size, mtime.0.cast_unsigned(), mtime.1.into()]
}
