//! Names that are one file in the sandbox stay one when a rebase brings that file up to date.

use std::collections::HashMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use whatif_diff::{Change, Kind, Linked, Node, State, content};
use whatif_layers::allotment::beside_head;
use whatif_overlay::Format;

use super::head::{Head, New};
use crate::EngineError;
use crate::merge::Looks;

/// A version that a rebase made of a file with several names.
pub(super) struct Version {
    place: PathBuf,
    looks: Looks,
}

/// Names that get whatever the file at a path gets, by that path.
pub(super) struct Following<'c>(HashMap<&'c Path, Vec<&'c Change>>);

impl<'c> Following<'c> {
    /// The rules are those of an apply: a name that reality has too, and moved, is merged by itself.
    pub(super) fn of(changes: &'c [Change]) -> Self {
        let mut following: HashMap<&Path, Vec<&Change>> = HashMap::new();
        for change in changes.iter().filter(|c| !c.has_drifted()) {
            match &change.linked {
                Some(Linked::Unchanged(twin)) => following.entry(&twin.path).or_default().push(change),
                Some(Linked::Changed(first)) if change.reality.is_none() => following.entry(first).or_default().push(change),
                _ => {}
            }
        }
        Self(following)
    }

    pub(super) fn after(&self, path: &Path) -> &[&'c Change] {
        self.0.get(path).map_or(&[], Vec::as_slice)
    }
}

impl Head<'_> {
    /// Gives these names to the version of their file that was put in its place.
    pub(super) fn follow(&mut self, place: &Path, looks: &Looks, following: &[&Change]) -> Result<(), EngineError> {
        for (change, was) in following.iter().filter_map(|c| Some((*c, c.after.as_ref()?))) {
            let temporary = beside_head(self.directory)?.join("rebase.name");
            let failed = |e| EngineError::io("rewrite", &change.path, e);
            link_or_copy(self, place, &temporary, looks).map_err(failed)?;
            self.put(&temporary, &self.place(change, &was.at)?).map_err(failed)?;
        }
        Ok(())
    }

    /// Exchanges what was made for a version of the same file that is there already, if that is the same.
    pub(super) fn share(&mut self, made: &Path, after: &State, looks: &Looks) -> io::Result<()> {
        let Some(versions) = inode(&after.node).and_then(|inode| self.versions.get(&inode)) else { return Ok(()) };
        for version in versions.iter().filter(|v| v.looks == *looks) {
            let (new, old) = (fs::symlink_metadata(made)?, fs::symlink_metadata(&version.place)?);
            if new.len() == old.len() && content::is_same(made, &version.place, new.len())? {
                fs::remove_file(made)?;
                return link_or_copy(self, &version.place, made, looks);
            }
        }
        Ok(())
    }

    pub(super) fn remember(&mut self, place: &Path, after: &State, looks: &Looks) {
        if let Some(inode) = inode(&after.node) {
            self.versions.entry(inode).or_default().push(Version { place: place.to_owned(), looks: looks.clone() });
        }
    }
}

/// Of a file with several names.
fn inode(node: &Node) -> Option<(u64, u64)> {
    (node.kind == Kind::File && node.nlink > 1).then_some((node.dev, node.ino))
}

fn link_or_copy(head: &Head<'_>, from: &Path, to: &Path, looks: &Looks) -> io::Result<()> {
    match fs::remove_file(to) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    match fs::hard_link(from, to) {
        // Another user's file, or one that has as many names as it can have.
        Err(error) if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::TooManyLinks) => {
            let node = Node::of(from)?.ok_or(ErrorKind::NotFound)?;
            head.make(to, &State::new(node, from.to_owned(), Format::None), &New::Same, looks)
        }
        other => other,
    }
}
