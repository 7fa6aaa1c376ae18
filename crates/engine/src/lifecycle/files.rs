//! Files of a sandbox, read and changed from outside through its keeper. Nothing here is a path of the host.

use std::io::{Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use whatif_keeper::Client;
use whatif_keeper::client::ClientError;
pub use whatif_keeper::client::Range;
pub use whatif_keeper::protocol::{Condition, EntryKind, FileStat, Happening, Listed, Text, What};
use whatif_types::{Sandbox, Selector};

use crate::EngineError;
use crate::ground::Ground;
use crate::lifecycle::copy::Replace;
use crate::lifecycle::exec::Entered;
use crate::lifecycle::{FileError, Lifecycle};

/// One connection to a sandbox for its files. Relative paths begin where the sandbox was made.
#[derive(Debug)]
pub struct Files {
    ground: Arc<Ground>,
    pub sandbox: Sandbox,
    client: Client,
}

/// One part of a directory.
#[derive(Debug)]
pub struct Page {
    pub entries: Vec<Listed>,
    /// The cursor of the next page, if there may be one.
    pub next: Option<Text>,
}

/// A connection over which a sandbox tells what happens to some of its files. Dropping it ends that.
#[derive(Debug)]
pub struct Watching(Files);

impl Lifecycle {
    /// Opens a connection to a sandbox for its files. One that went to rest is started.
    pub fn files(&self, which: &Selector) -> Result<Files, EngineError> {
        let Entered { sandbox, client, .. } = self.enter(which)?;
        self.ground.require_our_keeper(&sandbox)?;
        Ok(Files { ground: Arc::clone(&self.ground), sandbox, client })
    }
}

impl Files {
    /// What is there; a link itself, not what it leads to.
    pub fn stat(&mut self, path: &Path) -> Result<FileStat, EngineError> {
        self.ask(path, |client, path| client.stat(path, false))
    }

    /// What is there, or what a link there leads to.
    pub fn stat_target(&mut self, path: &Path) -> Result<FileStat, EngineError> {
        self.ask(path, |client, path| client.stat(path, true))
    }

    /// A part of a directory, in the order of the names' bytes: from the beginning, or from the cursor of the page before.
    pub fn list(&mut self, path: &Path, cursor: Option<&Text>, most: u32) -> Result<Page, EngineError> {
        let (entries, next) = self.ask(path, |client, path| client.list_page(path, cursor, most))?;
        Ok(Page { entries, next })
    }

    /// One piece of a regular file, perhaps shorter than asked for; empty at its end.
    pub fn read(&mut self, path: &Path, offset: u64, length: u64, if_version: Option<&str>) -> Result<Range, EngineError> {
        self.ask(path, |client, path| client.read_range(path, offset, length, if_version))
    }

    /// A part of a regular file, of one version: fails if it changes meanwhile, with what came before that written already.
    pub fn read_into(&mut self, path: &Path, offset: u64, length: u64, to: &mut dyn Write) -> Result<u64, EngineError> {
        let (mut done, mut version) = (0, None);
        while done < length {
            let range = self.read(path, offset.saturating_add(done), length - done, version.as_deref())?;
            if range.bytes.is_empty() {
                break;
            }
            to.write_all(&range.bytes).map_err(|e| EngineError::io("pass on", path, e))?;
            done += range.bytes.len() as u64;
            version = Some(range.stat.version);
        }
        Ok(done)
    }

    /// All that there is to read becomes the file, or nothing of it. Without a mode, it is that of the file in whose place it comes.
    pub fn write(
        &mut self,
        path: &Path,
        mode: Option<u32>,
        condition: Condition,
        from: &mut dyn Read,
    ) -> Result<FileStat, EngineError> {
        self.ask(path, |client, path| client.write_file(path, mode, condition, from))
    }

    /// At the end of a file, as it comes. With a mode, one that is not there is created.
    pub fn append(
        &mut self,
        path: &Path,
        create: Option<u32>,
        if_version: Option<&str>,
        from: &mut dyn Read,
    ) -> Result<FileStat, EngineError> {
        self.ask(path, |client, path| client.append_file(path, create, if_version, from))
    }

    /// A file, a link or an empty directory.
    pub fn delete(&mut self, path: &Path, if_version: Option<&str>) -> Result<(), EngineError> {
        self.ask(path, |client, path| client.delete(path, false, if_version))
    }

    /// With all that is beneath it. Follows no link and enters no mount.
    pub fn delete_tree(&mut self, path: &Path, if_version: Option<&str>) -> Result<(), EngineError> {
        self.ask(path, |client, path| client.delete(path, true, if_version))
    }

    pub fn move_to(&mut self, from: &Path, to: &Path, replace: Replace) -> Result<(), EngineError> {
        let to = self.inside(to);
        self.ask(from, |client, from| client.move_file(from, &to, replace == Replace::Anything))
    }

    /// With those above it that are missing.
    pub fn make_directories(&mut self, path: &Path, mode: u32) -> Result<(), EngineError> {
        self.ask(path, |client, path| client.make_directories(path, mode))
    }

    /// Tells from here on what happens to these, and directly in those that are directories.
    pub fn watch(mut self, paths: &[&Path]) -> Result<Watching, EngineError> {
        for path in paths {
            self.ask(path, Client::watch)?;
        }
        Ok(Watching(self))
    }

    fn inside(&self, path: &Path) -> PathBuf {
        self.sandbox.details.cwd.join(path)
    }

    fn ask<T>(
        &mut self,
        path: &Path,
        question: impl FnOnce(&mut Client, &Path) -> Result<T, ClientError>,
    ) -> Result<T, EngineError> {
        let inside = self.inside(path);
        question(&mut self.client, &inside).map_err(|error| match error {
            ClientError::Failed(failed) => match FileError::of(inside, failed) {
                Ok(error) => error.into(),
                Err(failed) => ClientError::Failed(failed).into(),
            },
            ClientError::Source(error) => EngineError::io("read what is to be written to", &inside, error),
            other => self.ground.explain_end(&self.sandbox, other),
        })
    }
}

impl Watching {
    /// What happened since; waits for it. After `Overflow`, more happened than was told.
    pub fn happened(&mut self) -> Result<Vec<Happening>, EngineError> {
        let Files { ground, sandbox, client } = &mut self.0;
        client.happened().map_err(|error| ground.explain_end(sandbox, error))
    }

    /// Whether something was heard already; then there may be nothing left for `poll` to see.
    #[must_use]
    pub fn has_news(&self) -> bool {
        self.0.client.has_reply()
    }
}

impl AsFd for Watching {
    /// Becomes readable when there is something to tell.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.client.as_fd()
    }
}
