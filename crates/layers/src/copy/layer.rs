//! Copies one tree of a layer, or of a head that something alive may go on writing to.
//!
//! Nothing in it is looked up by a path twice: a directory is opened through no link, and what is in it by its name alone, neither
//! followed. A directory that becomes a link meanwhile is copied as the one or the other, or not at all, which is an error.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, openat};
use rustix::io::Errno;
use whatif_sys::direct;
use whatif_types::copied::Attributes;

use super::attributes::{give_all, of_held};
use super::content;
use crate::{PathError, on};

/// A directory that was made, and what it gets when everything is in it.
struct Made {
    copy: PathBuf,
    metadata: Metadata,
    attributes: Attributes,
}

/// Copies one tree of a layer into the existing, empty directory `to`, marks and all.
pub fn layer(from: &Path, to: &Path) -> Result<(), PathError> {
    let mut tree = Tree { device: None, links: HashMap::new(), made: Vec::new(), pending: vec![(from.to_owned(), to.to_owned())] };
    while let Some((source, target)) = tree.pending.pop() {
        let directory = direct::open(&source, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW);
        let directory = directory.map_err(|errno| on("list", &source)(explained(errno)))?;
        let held = File::from(directory);
        let listed = tree.open(&held, target.clone()).map_err(on("list", &source))?;
        for name in listed {
            tree.entry(&held, &name, &source, &target).map_err(on("copy", &source.join(&name)))?;
        }
    }
    // Deepest first: giving a directory its mode and times must come after its content.
    for Made { copy, metadata, attributes } in tree.made.iter().rev() {
        give_all(copy, metadata, attributes).map_err(on("copy the attributes of", copy))?;
    }
    Ok(())
}

struct Tree {
    /// Of the file system that it lies on. What is mounted in it is not part of it.
    device: Option<u64>,
    /// Hard links of one layer are one file.
    links: HashMap<u64, PathBuf>,
    made: Vec<Made>,
    pending: Vec<(PathBuf, PathBuf)>,
}

impl Tree {
    /// What is in a directory that was opened. None of a mount.
    fn open(&mut self, directory: &File, copy: PathBuf) -> io::Result<Vec<OsString>> {
        let metadata = directory.metadata()?;
        let is_part = metadata.dev() == *self.device.get_or_insert(metadata.dev());
        self.made.push(Made { copy, attributes: of_held(directory)?, metadata });
        if is_part { names(directory) } else { Ok(Vec::new()) }
    }

    fn entry(&mut self, directory: &File, name: &OsStr, source: &Path, target: &Path) -> io::Result<()> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let held = File::from(openat(directory, name, flags, Mode::empty()).map_err(explained)?);
        let (metadata, copy) = (held.metadata()?, target.join(name));
        if metadata.is_dir() {
            fs::DirBuilder::new().mode(0o700).create(&copy)?;
            self.pending.push((source.join(name), copy));
            return Ok(());
        }
        if let Some(first) = self.links.get(&metadata.ino()).filter(|_| metadata.nlink() > 1) {
            return fs::hard_link(first, &copy);
        }
        if !alone(directory, name, &held, &metadata, &copy)? {
            return Ok(());
        }
        if metadata.nlink() > 1 {
            self.links.insert(metadata.ino(), copy);
        }
        Ok(())
    }
}

/// Whether there is anything to copy.
fn alone(directory: &File, name: &OsStr, held: &File, metadata: &Metadata, to: &Path) -> io::Result<bool> {
    if metadata.is_symlink() {
        let target = rustix::fs::readlinkat(held, "", Vec::new())?;
        std::os::unix::fs::symlink(OsStr::from_bytes(target.as_bytes()), to)?;
    } else if metadata.is_file() {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let source = File::from(openat(directory, name, flags, Mode::empty()).map_err(explained)?);
        let opened = source.metadata()?;
        if (opened.dev(), opened.ino()) != (metadata.dev(), metadata.ino()) {
            return Err(explained(Errno::STALE));
        }
        content::copy(&source, metadata, to)?;
    } else {
        // Whiteouts are devices.
        let kind = FileType::from_raw_mode(metadata.mode());
        match rustix::fs::mknodat(CWD, to, kind, Mode::empty(), metadata.rdev()) {
            // A socket without its listener is of no use to anybody.
            Err(_) if kind.is_socket() => return Ok(false),
            other => other?,
        }
    }
    give_all(to, metadata, &of_held(held)?)?;
    Ok(true)
}

fn names(directory: &File) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(OwnedFd::from(directory.try_clone()?))? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(OsStr::from_bytes(name).to_owned());
        }
    }
    Ok(names)
}

/// Something that was there a moment ago is not, or is something else: what is alive inside did not stand still.
fn explained(errno: Errno) -> io::Error {
    match errno {
        Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::STALE => io::Error::new(
            io::ErrorKind::StaleNetworkFileHandle,
            "it changed while it was copied; stop what runs in the sandbox and try again",
        ),
        other => other.into(),
    }
}
