//! The names in one directory, and what the layers say about each.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsString;
use std::path::Path;

use rustix::io::Errno;
use whatif_sys::absence::OrAbsent;

use super::directory::{gone_meanwhile, list};
use super::stack::Part;
use super::views::{Listing, Lower, Views};
use super::walk::{Finding, Walk};
use crate::copied::Copied;
use crate::node::{Kind, Node, Time};
use crate::said;

/// The names in a directory.
#[derive(Default)]
pub(super) struct Names {
    /// What the layers say about each; nothing about those that only reality has.
    pub said: BTreeMap<OsString, Option<Entry>>,
    /// Those of which some layer could not be asked.
    pub unknown: HashSet<OsString>,
}

/// One name in the layers: what the newest that knows it says, and when the oldest that knows it was told.
pub(super) struct Entry {
    pub said: Said,
    pub touched: Option<Time>,
}

pub(super) enum Said {
    Here { upper: usize, node: Node },
    Gone,
}

impl Entry {
    pub(super) fn directory(&self) -> Option<(usize, &Node)> {
        match &self.said {
            Said::Here { upper, node } if node.kind == Kind::Directory => Some((*upper, node)),
            _ => None,
        }
    }
}

impl Walk<'_> {
    /// The names that a directory of a copied tree had, and what is in reality where all of it was taken away.
    pub(super) fn list_copied(&self, copied: &Copied, path: &Path, views: &Views, names: &mut Names) -> Result<(), Errno> {
        for name in copied.within(path) {
            names.said.entry(name.to_owned()).or_insert(None);
        }
        let node = views.uppers.first().map(|part| Node::at(&part.directory, ".")).transpose()?;
        // Of a directory that the sandbox took away with the one above it, it has nothing, whether it was copied or came later.
        let is_taken_away = !copied.is_known || node.is_none() || copied.is_replaced(path, node.as_ref());
        if let Some(directory) = views.before.as_ref().filter(|_| is_taken_away) {
            for name in list(directory).map_err(gone_meanwhile)? {
                names.said.entry(name).or_insert(None);
            }
        }
        Ok(())
    }

    /// What an apply made real out of a directory that the sandbox made, and reality still has. Where the layers say nothing of it,
    /// the sandbox deleted or moved it while a process kept the kernel from looking up that reality has the directory, too: then
    /// there is nothing to hide, and no mark is left.
    pub(super) fn made_real(&self, directory: &Path, views: &Views) -> Result<BTreeMap<OsString, Entry>, Errno> {
        let mut made = BTreeMap::new();
        let (Some(before), Lower::Plain, None) = (&views.before, &views.lower, &self.copied) else { return Ok(made) };
        if matches!(views.listing, Listing::Unchanged(_)) || views.uppers.is_empty() {
            return Ok(made);
        }
        for record in self.scope.bases.made_real_in(directory) {
            let Some(name) = record.path.file_name() else { continue };
            let file = |node: &Node| (node.dev, node.ino, node.btime, node.kind);
            if Node::at(before, name).or_absent()?.is_some_and(|now| file(&now) == file(&record.node)) {
                // It has not seen since what reality did to it.
                made.insert(name.to_owned(), Entry { said: Said::Gone, touched: Some(record.node.ctime) });
            }
        }
        Ok(made)
    }

    /// What one layer's directory, part of the one at `full`, says about the names `listed` in it; what a newer layer says about a
    /// name stands.
    pub(super) fn list_layer(
        &self,
        part: &Part,
        listed: Vec<OsString>,
        position: usize,
        full: &Path,
        names: &mut Names,
        finding: &mut Finding,
    ) {
        let marks = self.tree.marks;
        let directory = &part.directory;
        for name in listed {
            let about = |node: Node| -> Result<(bool, bool, Node), Errno> {
                let is_bookkeeping = said::is_bookkeeping(marks, directory, &name, &node)?;
                Ok((is_bookkeeping, said::is_whiteout(marks, directory, &name, &node)?, node))
            };
            let (is_bookkeeping, is_gone, node) = match Node::at(directory, &name).and_then(about).or_absent() {
                Ok(Some(looked)) => looked,
                Ok(None) => continue,
                Err(errno) => {
                    finding.unreadable(&full.join(&name), errno);
                    names.unknown.insert(name);
                    continue;
                }
            };
            if is_bookkeeping {
                continue;
            }
            let touched = node.btime;
            if let Some(Some(known)) = names.said.get_mut(&name) {
                known.touched = known.touched.min(touched);
                continue;
            }
            if is_gone {
                names.said.insert(name, Some(Entry { said: Said::Gone, touched }));
                continue;
            }
            if self.layers[part.layer].is_head && node.kind == Kind::File {
                finding.found.bytes += node.blocks * 512;
            }
            names.said.insert(name, Some(Entry { said: Said::Here { upper: position, node }, touched }));
        }
    }
}
