//! What a sandbox started from in a tree that was copied: nothing shows through a copy, but it has an inventory.

use std::io;
use std::path::Path;

use super::start::start_from;
use super::writer::{self, Kept, Writer};
use super::{Bases, Record};
use crate::change::{Base, Change, State};
use crate::copied::Copied;
use crate::node::{Kind, Node};
use crate::unreadable::Unreadable;

impl Bases {
    /// What the sandbox started from at a path that lies at `inside` in its tree, which the sandbox changed.
    pub(crate) fn start_of_copied(
        &self,
        copied: &Copied,
        path: &Path,
        inside: &Path,
        now: Option<&State>,
        after: Option<&State>,
    ) -> Result<(Option<State>, Base), Unreadable> {
        // What was kept since, or set by an apply.
        let is_going = after.is_some() && self.is_going(copied, path, inside);
        if self.find(path).is_some() && !is_going {
            return self.start_of(path, now, after, (i64::MAX, 0));
        }
        // An apply took away what was copied, or the sandbox made the directory: whatever reality has here came later.
        if self.was_absent(path) && !is_going {
            return Ok((None, if now.is_some() { Base::Kept } else { Base::Reality }));
        }
        if let Some(node) = copied.original(inside) {
            let attributes = copied.attributes(inside).cloned();
            let record = Record { attributes, identity_only: true, ..Record::new(path, node.clone()) };
            return start_from(&record, None, now, after);
        }
        Ok(match now {
            _ if !copied.is_known => (now.cloned(), Base::Lost),
            None => (None, Base::Reality),
            // Reality got it since, in a directory that the sandbox took away.
            Some(_) if after.is_none() => (now.cloned(), Base::Lost),
            // Both made it.
            Some(_) => (None, Base::Kept),
        })
    }

    /// Whether a rebase was about to take something out of a copy, or what it lies in, when it was cut short: the inventory forgets it
    /// last.
    fn is_going(&self, copied: &Copied, path: &Path, inside: &Path) -> bool {
        let mut above = path.ancestors().zip(inside.ancestors());
        above.any(|(path, inside)| copied.original(inside).is_some() && self.get(path).is_some_and(Record::is_taken_away))
    }

    /// Whether nothing but an inventory says what a change started from, and reality is something else.
    pub(super) fn is_known_by_inventory(&self, change: &Change) -> bool {
        change.base == Base::Kept && self.get(&change.path).is_none() && !self.was_absent(&change.path)
    }

    /// What the inventory says of a change, as a record of its own: only records outlast an apply and its undo, after which reality
    /// has other inodes and times. `None` if reality moved while it was read.
    pub(super) fn record_of_copied(change: &Change, writer: &mut Writer, left: &mut u64) -> io::Result<Option<Record>> {
        let (before, after) = (change.before.as_ref(), change.after.as_ref());
        let Some(before) = before else {
            return Ok(after.map(|after| Record { absent: true, ..Record::new(&change.path, after.node.clone()) }));
        };
        // Reality has the bytes of the original; what differs is what it looks like.
        let Kept { content, hash } = match before.node.kind {
            Kind::File | Kind::Link if after.is_some() => writer.keep(before)?,
            Kind::File => {
                let hash = writer::hash_if_open(before, *left)?;
                *left = left.saturating_sub(before.node.size);
                Kept { content: None, hash }
            }
            _ => Kept::default(),
        };
        if Node::of(&before.at)?.is_none_or(|now| !now.is_untouched_since(&before.node)) {
            return Ok(None);
        }
        // With reality's time it would pass for untouched, and what it looks like would not be compared.
        let node = Node { ctime: (0, 0), ..before.node.clone() };
        let identity_only = before.node.kind == Kind::Directory || after.is_none();
        let attributes = Some(before.attributes()?.clone());
        Ok(Some(Record { content, hash, attributes, identity_only, ..Record::new(&change.path, node) }))
    }

    /// Everything that something is known about.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        self.records.values().map(|placed| placed.record.path.as_path())
    }

    /// Paths that are known to have been in reality.
    pub(crate) fn known_in_reality(&self) -> impl Iterator<Item = &Path> {
        self.records.values().map(|placed| &placed.record).filter(|record| !record.absent).map(|record| record.path.as_path())
    }
}
