//! What is kept of what a sandbox deleted.

use std::io;

use super::index::Line;
use super::writer::{self, Kept, Writer};
use super::{Bases, Record, inventory};
use crate::change::{Base, Change};
use crate::node::{Kind, Node};

impl Bases {
    /// What can tell later whether reality has again what the sandbox deleted. The bytes of files are too much for that.
    pub(super) fn keep_of_deleted(&self, change: &Change, all: &[Change], writer: &mut Writer, left: &mut u64) -> io::Result<Kept> {
        match change.before.as_ref().map(|before| (before, before.node.kind)) {
            Some((_, Kind::Directory)) => match inventory::of_reality(change, all, left) {
                Some(inventory) => Ok(Kept { content: Some(writer.keep_bytes(&inventory)?), hash: None }),
                None => Ok(Kept::default()),
            },
            Some((before, Kind::Link)) => writer.keep(before),
            Some((before, Kind::File)) => {
                let hash = writer::hash_if_open(before, *left)?;
                *left = left.saturating_sub(before.node.size);
                Ok(Kept { content: None, hash })
            }
            _ => Ok(Kept::default()),
        }
    }

    /// What the directories in a deleted one looked like. Their times do not tell whether reality changes that: they move with every
    /// name that comes or goes, too.
    pub(super) fn keep_of_directories_below(
        &mut self,
        top: &Change,
        all: &[Change],
        writer: &mut Writer,
        own: usize,
    ) -> io::Result<()> {
        for change in &all[inventory::below(top, all)] {
            let is_deleted = change.after.is_none() && change.base == Base::Reality && self.get(&change.path).is_none();
            let Some(before) = change.before.as_ref().filter(|b| is_deleted && b.node.kind == Kind::Directory) else { continue };
            // Those of one that is closed to this user are not known.
            let attributes = before.attributes().ok().cloned();
            // Without a record, one that changed meanwhile is in doubt.
            if Node::of(&before.at)?.is_some_and(|now| now.ctime == before.node.ctime) {
                // Not `identity_only`, as of a directory on the way to something: the sandbox is known to have seen this very one,
                // also after an apply took something out of it.
                let record = Record { attributes, ..Record::new(&change.path, before.node.clone()) };
                self.add(writer, own, Line::Known(record));
            }
        }
        Ok(())
    }
}
