//! Directories of reality that a sandbox has something else in the place of. What reality gets in them the sandbox never sees, and
//! the times of what it has there tell that only as long as it stays: what is moved away leaves a mark that is younger.

use std::io;
use std::path::{Path, PathBuf};

use super::index::Line;
use super::writer::Writer;
use super::{Bases, Record, inventory};
use crate::attributes::Attributes;
use crate::change::{Change, State};
use crate::node::{Kind, Node, Time};

/// A directory of the sandbox through which nothing shows of the one that reality has there.
#[derive(Clone, Debug)]
pub struct Covered {
    pub path: PathBuf,
    /// Reality's.
    pub node: Node,
    pub attributes: Attributes,
    /// When the sandbox put its own there.
    pub since: Time,
}

impl Bases {
    /// Keeps since when the sandbox has not seen what is in directories that it has something else in the place of.
    pub fn keep_covered(&mut self, covered: &[Covered], changes: &[Change]) -> io::Result<()> {
        let known = self.deleted_that_were_known(changes);
        if known.is_empty() && !covered.iter().any(|one| self.may_be_covered(&one.path)) {
            return Ok(());
        }
        let (mut writer, own) = self.begin()?;
        // Another command may have kept them while this one waited.
        self.read(own)?;
        for one in covered.iter().filter(|one| !known.iter().any(|(path, _)| *path == one.path)) {
            let attributes = Some(one.attributes.clone());
            let first = Record { identity_only: true, attributes, ..Record::new(&one.path, one.node.clone()) };
            self.cover(&one.path, one.since, Some(first), &mut writer, own)?;
        }
        for (path, since) in known {
            self.cover(&path, since, None, &mut writer, own)?;
        }
        writer.end()
    }

    /// What it deleted after something else was written down of it: that an apply made it real, for example.
    fn deleted_that_were_known(&self, changes: &[Change]) -> Vec<(PathBuf, Time)> {
        let is_directory = |state: &&State| state.node.kind == Kind::Directory;
        let is_deleted =
            |c: &&Change| c.before.as_ref().is_some_and(|b| is_directory(&b)) && c.after.as_ref().is_none_or(|a| !is_directory(&a));
        let is_known = |c: &&Change| self.get(&c.path).is_some() && self.may_be_covered(&c.path);
        let deleted = changes.iter().filter(is_deleted).filter(is_known);
        deleted.filter_map(|c| Some((c.path.clone(), inventory::latest(c, changes)?))).collect()
    }

    /// Where there was nothing, or it is not known what there was, nothing counts as seen anyway.
    fn may_be_covered(&self, path: &Path) -> bool {
        !self.covered.covers(path)
            && !self.was_absent(path)
            && self.get(path).is_none_or(|record| !record.unknown && record.node.kind == Kind::Directory)
    }

    fn cover(&mut self, path: &Path, since: Time, first: Option<Record>, writer: &mut Writer, own: usize) -> io::Result<()> {
        if !self.may_be_covered(path) {
            return Ok(());
        }
        let Some(mut record) = self.get(path).cloned().or(first) else { return Ok(()) };
        if let Some(placed) = self.find(path).filter(|placed| placed.directory != own)
            && let Some(number) = record.content
        {
            record.content = writer.take_over(&self.directories[placed.directory].join(number.to_string()))?;
        }
        record.is_covered = true;
        record.node.mtime = since;
        self.add(writer, own, Line::Known(record));
        Ok(())
    }
}
