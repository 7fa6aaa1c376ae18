//! What a sandbox started from in a tree that was copied: nothing shows through a copy, but it has an inventory.

use std::path::Path;

use super::{Bases, Record, start_from};
use crate::change::{Base, State};
use crate::copied::Copied;
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
        if self.find(path).is_some() {
            return self.start_of(path, now, after, (i64::MAX, 0));
        }
        // An apply took away what was copied, or the sandbox made the directory: whatever reality has here came later.
        if self.was_absent(path) {
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

    /// Paths that are known to have been in reality.
    pub(crate) fn known_in_reality(&self) -> impl Iterator<Item = &Path> {
        self.records.values().map(|placed| &placed.record).filter(|record| !record.absent).map(|record| record.path.as_path())
    }
}
