//! `whatif cp`: files between reality and a sandbox, through its keeper.
//!
//! Copying out writes where the user said, as any `cp` would; it never follows a link the sandbox made.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use whatif_keeper::Client;
use whatif_keeper::protocol::{Access, EntryKind};

use crate::exec::Entered;
use crate::{Engine, EngineError};

/// How much was copied.
#[derive(Clone, Copy, Debug, Default)]
pub struct Copied {
    pub files: u64,
    pub bytes: u64,
    /// Links, sockets and the like, which are not carried across.
    pub skipped: u64,
}

impl Engine {
    /// From the sandbox to reality.
    pub fn copy_out(&self, name: &str, inside: &Path, outside: &Path) -> Result<Copied, EngineError> {
        let Entered { sandbox, mut client } = self.enter(Some(name))?;
        let inside = absolute(&sandbox.details.cwd, inside);
        let entry = client.examine(&inside)?.ok_or_else(|| missing(&inside))?;
        let target = into_directory(outside, inside.file_name());
        let mut copied = Copied::default();
        out(&mut client, &inside, entry.kind, entry.mode, &target, &mut copied)?;
        Ok(copied)
    }

    /// From reality to the sandbox.
    pub fn copy_in(&self, outside: &Path, name: &str, inside: &Path) -> Result<Copied, EngineError> {
        let Entered { sandbox, mut client } = self.enter(Some(name))?;
        let mut inside = absolute(&sandbox.details.cwd, inside);
        let is_directory = client.examine(&inside)?.is_some_and(|e| e.kind == EntryKind::Directory);
        if let (true, Some(file)) = (is_directory, outside.file_name()) {
            inside.push(file);
        }
        let mut copied = Copied::default();
        into(&mut client, outside, &inside, &mut copied)?;
        Ok(copied)
    }
}

fn out(
    client: &mut Client,
    inside: &Path,
    kind: EntryKind,
    mode: u32,
    outside: &Path,
    copied: &mut Copied,
) -> Result<(), EngineError> {
    match kind {
        EntryKind::File => {
            let (mut source, _) = client.open(inside, Access::Read)?;
            let mut target = File::options()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(mode & 0o777)
                .custom_flags(rustix::fs::OFlags::NOFOLLOW.bits() as i32)
                .open(outside)
                .map_err(|e| EngineError::io("write", outside, e))?;
            copied.bytes += io::copy(&mut source, &mut target).map_err(|e| EngineError::io("write", outside, e))?;
            copied.files += 1;
        }
        EntryKind::Directory => {
            if !fs::symlink_metadata(outside).is_ok_and(|m| m.is_dir()) {
                DirBuilder::new().mode(mode & 0o777 | 0o700).create(outside).map_err(|e| EngineError::io("create", outside, e))?;
            }
            for entry in client.directory(inside)? {
                let name = entry.name.to_os();
                out(client, &inside.join(&name), entry.kind, entry.mode, &outside.join(&name), copied)?;
            }
        }
        EntryKind::Link | EntryKind::Other => copied.skipped += 1,
    }
    Ok(())
}

fn into(client: &mut Client, outside: &Path, inside: &Path, copied: &mut Copied) -> Result<(), EngineError> {
    let metadata = fs::symlink_metadata(outside).map_err(|e| EngineError::io("read", outside, e))?;
    let mode = metadata.permissions().mode();
    if metadata.is_dir() {
        client.make_directory(inside, mode)?;
        for entry in fs::read_dir(outside).map_err(|e| EngineError::io("list", outside, e))? {
            let entry = entry.map_err(|e| EngineError::io("list", outside, e))?;
            into(client, &entry.path(), &inside.join(entry.file_name()), copied)?;
        }
    } else if metadata.is_file() {
        let mut source = File::open(outside).map_err(|e| EngineError::io("read", outside, e))?;
        let (mut target, _) = client.open(inside, Access::Replace { mode })?;
        copied.bytes += io::copy(&mut source, &mut target).map_err(|e| EngineError::io("copy", outside, e))?;
        copied.files += 1;
    } else {
        copied.skipped += 1;
    }
    Ok(())
}

fn absolute(base: &Path, path: &Path) -> PathBuf {
    base.join(path)
}

/// As with `cp`: a target that is a directory receives the source under its own name.
fn into_directory(target: &Path, name: Option<&std::ffi::OsStr>) -> PathBuf {
    match name {
        Some(name) if target.is_dir() => target.join(name),
        _ => target.to_owned(),
    }
}

fn missing(path: &Path) -> EngineError {
    EngineError::io("find", path, io::ErrorKind::NotFound.into())
}
