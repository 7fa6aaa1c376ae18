//! Rewrites entries of a head, at once and with all their attributes. Each is on the disk before anything relies on it.

use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use whatif_diff::base::NewBase;
use whatif_diff::{Change, Kind, State, content};
use whatif_layers::allotment::beside_head;
use whatif_layers::copy;
use whatif_sys::absence::{self, OrAbsent};
use whatif_types::Sandbox;

use super::names::Version;
use crate::ground::unfinished::intent::{self, Looking};
use crate::merge::{Looks, chown, flush, give, settle};
use crate::trees::tree_of;
use crate::{EngineError, private_file};

/// The head of a sandbox that rests.
pub(super) struct Head<'a> {
    pub sandbox: &'a Sandbox,
    /// The sandbox's own.
    pub directory: &'a Path,
    /// The layers beneath it, newest first.
    pub layers: Vec<PathBuf>,
    /// What became of files with several names, by device and inode of what they were.
    pub versions: HashMap<(u64, u64), Vec<Version>>,
}

/// What an entry gets.
pub(super) enum New<'b> {
    Bytes(&'b [u8]),
    /// What it has.
    Same,
    Link(&'b Path),
}

impl Head<'_> {
    /// Replaces what the sandbox has at a path, and at those that are further names of it.
    pub(super) fn rewrite(
        &mut self,
        change: &Change,
        after: &State,
        new: &New<'_>,
        looks: &Looks,
        base: NewBase,
        following: &[&Change],
    ) -> Result<(), EngineError> {
        let place = self.place(change, &after.at)?;
        let temporary = intent::new_version(self.directory)?;
        let failed = |e| EngineError::io("rewrite", &change.path, e);
        if after.node.kind == Kind::Directory {
            if !absence::is_dir(&place).map_err(failed)? {
                self.make_directory(&place, &after.at)?;
            }
            let inside = place.strip_prefix(self.directory).unwrap_or(&place).to_owned();
            let looking = Looking { path: change.path.clone(), place: inside, looks: looks.clone() };
            intent::note_looks(self.directory, &looking, base).map_err(failed)?;
            give(&place, after, looks).map_err(failed)?;
            return intent::keep(self.directory);
        }
        self.make(&temporary, after, new, looks).map_err(failed)?;
        self.share(&temporary, after, looks).map_err(failed)?;
        intent::note(self.directory, base).map_err(failed)?;
        self.put(&temporary, &place).map_err(failed)?;
        intent::keep(self.directory)?;
        self.remember(&place, after, looks);
        self.follow(&place, looks, following)
    }

    /// What was made takes its place.
    pub(super) fn put(&self, temporary: &Path, place: &Path) -> io::Result<()> {
        fs::rename(temporary, place)?;
        place.parent().map_or(Ok(()), flush)
    }

    pub(super) fn make(&self, temporary: &Path, after: &State, new: &New<'_>, looks: &Looks) -> io::Result<()> {
        match fs::remove_file(temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let fresh = |state: &State| State::new(state.node.clone(), temporary.to_owned(), whatif_overlay::Format::None);
        match new {
            New::Link(target) => {
                symlink(target, temporary)?;
                chown(temporary, looks)
            }
            New::Same if after.node.kind == Kind::Link => {
                symlink(after.target()?, temporary)?;
                chown(temporary, looks)
            }
            New::Bytes(bytes) => {
                private_file::write(temporary, bytes)?;
                settle(temporary, &fresh(after), looks)?;
                File::open(temporary).or_else(|_| File::options().write(true).open(temporary))?.sync_all()
            }
            New::Same => {
                private_file::write(temporary, b"")?;
                let mut target = File::options().write(true).open(temporary)?;
                io::copy(&mut content::open(&after.at)?, &mut target)?;
                settle(temporary, &fresh(after), looks)?;
                target.sync_all()
            }
        }
    }

    /// Takes away what reality does not have any more. False if a layer below would show it again.
    pub(super) fn remove(&self, after: &State) -> Result<bool, EngineError> {
        let failed = |e| EngineError::io("remove", &after.at, e);
        let is_whole = self.sandbox.details.position.stack.is_empty() && after.at.starts_with(self.directory.join("head"));
        if !is_whole || after.node.kind == Kind::Directory {
            return Ok(false);
        }
        fs::remove_file(&after.at).map_err(failed)?;
        after.at.parent().map_or(Ok(()), flush).map_err(failed)?;
        Ok(true)
    }

    /// Where a changed entry belongs in the head. One that lies in a frozen layer so far gets the directories it needs.
    pub(super) fn place(&self, change: &Change, at: &Path) -> Result<PathBuf, EngineError> {
        let head = self.directory.join("head");
        if at.starts_with(&head) {
            return Ok(at.to_owned());
        }
        let Some((number, tree)) = tree_of(self.sandbox, &change.path) else { return Ok(at.to_owned()) };
        let inside = change.path.strip_prefix(tree).unwrap_or(&change.path);
        let root = head.join(number.to_string());
        let file = if inside.as_os_str().is_empty() { root.clone() } else { root.join(inside) };
        let above = file.ancestors().skip(1).zip(at.ancestors().skip(1));
        let mut missing: Vec<(&Path, &Path)> = Vec::new();
        for (directory, like) in above.take_while(|(d, _)| *d != root) {
            if absence::is_dir(directory).map_err(|e| EngineError::io("examine", directory, e))? {
                break;
            }
            missing.push((directory, like));
        }
        for (made, like) in missing.into_iter().rev() {
            let newest = self.newest(made.strip_prefix(&head).unwrap_or(made), at)?;
            self.make_directory(made, newest.as_deref().unwrap_or(like))?;
        }
        Ok(file)
    }

    /// Makes a directory that looks like one in a layer. It hides that one, so it gets its place only when it looks like it: should the
    /// rebase be cut short, nothing else has the attributes that the sandbox gave it.
    fn make_directory(&self, place: &Path, like: &Path) -> Result<(), EngineError> {
        let temporary = beside_head(self.directory)?.join("rebase.directory");
        let failed = |e| EngineError::io("create", place, e);
        let metadata = fs::symlink_metadata(like).map_err(|e| EngineError::io("examine", like, e))?;
        // Of a rebase that was cut short.
        fs::remove_dir(&temporary).or_absent().map_err(failed)?;
        fs::create_dir(&temporary).map_err(failed)?;
        copy::copy_looks(like, &temporary, &metadata)?;
        flush(&temporary).map_err(failed)?;
        self.put(&temporary, place).map_err(failed)
    }

    /// A directory as the newest layer has it, if that is one above the layer that something lies in.
    fn newest(&self, directory: &Path, at: &Path) -> Result<Option<PathBuf>, EngineError> {
        for layer in self.layers.iter().take_while(|layer| !at.starts_with(layer)) {
            let path = layer.join(directory);
            if absence::is_dir(&path).map_err(|e| EngineError::io("examine", &path, e))? {
                return Ok(Some(path));
            }
        }
        Ok(None)
    }
}
