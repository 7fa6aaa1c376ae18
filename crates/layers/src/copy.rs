//! Copies trees into a head where the kernel cannot overlay them: shared blocks where the file system can, bytes where not.

mod archived;
mod attributes;
mod content;
mod inventory;
mod layer;
mod mounted;
mod planned;
mod refresh;
mod written;

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType};
use whatif_types::copied::Attributes;

pub use self::attributes::{copy_attributes, copy_looks};
pub use self::content::{fill, fill_telling};
pub use self::inventory::Copied;
pub use self::layer::layer;
use self::mounted::is_mounted;
pub use self::planned::complete;
pub use self::refresh::{Refresh, Stale, staging};
pub use self::written::is_written;
use crate::{PathError, on};

/// How far a copy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// The whole tree.
    Tree,
    /// The files of this directory; its subdirectories as empty directories.
    Level,
}

/// Copies reality's `from` into the existing, empty directory `to`, leaving out `excluded` paths and what is mounted in it. What
/// vanishes meanwhile is not there; sockets, pipes and devices lead to things outside, and a copy has no use for them.
///
/// Files with several names become files of their own, as they do in an overlay when one of them is written.
pub fn into_directory(from: &Path, to: &Path, depth: Depth, excluded: &[PathBuf]) -> Result<Copied, PathError> {
    let mut copied = Copied::default();
    let top = fs::symlink_metadata(from).map_err(on("examine", from))?;
    let mut pending = vec![(from.to_owned(), PathBuf::new())];
    let mut made = vec![(from.to_owned(), PathBuf::new(), top.clone())];
    while let Some((source, inside)) = pending.pop() {
        let Some(entries) = if_there(fs::read_dir(&source)).map_err(on("list", &source))? else { continue };
        for entry in entries {
            let entry = entry.map_err(on("list", &source))?;
            let (path, inside) = (entry.path(), inside.join(entry.file_name()));
            if excluded.contains(&path) {
                continue;
            }
            let Some(metadata) = if_there(fs::symlink_metadata(&path)).map_err(on("examine", &path))? else { continue };
            let copy = to.join(&inside);
            if metadata.is_dir() {
                fs::DirBuilder::new().mode(0o700).create(&copy).map_err(on("create", &copy))?;
                if depth == Depth::Tree && !is_mounted(&path, &metadata, top.dev())? {
                    pending.push((path.clone(), inside.clone()));
                }
                made.push((path, inside, metadata));
            } else if let Some((original, attributes)) = copy_original(&path, &copy, &metadata)? {
                copied.add(&inside, &original, &copy, attributes)?;
            }
        }
    }
    // Deepest first: giving a directory its mode and times must come after its content.
    for (path, inside, metadata) in made.iter().rev() {
        let copy = to.join(inside);
        let attributes = attributes::of_name(path, &copy, metadata)?;
        copied.add(inside, metadata, &copy, attributes)?;
    }
    Ok(copied)
}

/// Copies one entry of reality. Returns what exactly was copied; nothing if it cannot be, or is gone.
fn copy_original(from: &Path, to: &Path, metadata: &Metadata) -> Result<Option<(Metadata, Attributes)>, PathError> {
    // What was written within the present tick of the clock could be written again without getting another time.
    inventory::wait_until_after(inventory::ctime(metadata));
    if metadata.is_symlink() {
        let Some(target) = if_there(fs::read_link(from)).map_err(on("read", from))? else { return Ok(None) };
        std::os::unix::fs::symlink(target, to).map_err(on("create", to))?;
        return Ok(Some((metadata.clone(), attributes::of_name(from, to, metadata)?)));
    }
    if !metadata.is_file() {
        return Ok(None);
    }
    // Reality can change between any two looks: from here on it is this file, whatever its name leads to.
    let Some(source) = if_there(content::open(from)).map_err(on("open", from))? else { return Ok(None) };
    let metadata = source.metadata().map_err(on("examine", from))?;
    if !metadata.is_file() {
        return Ok(None);
    }
    inventory::wait_until_after(inventory::ctime(&metadata));
    content::copy(&source, &metadata, to).map_err(on("copy", from))?;
    let attributes = attributes::of_file(&source, to, &metadata).map_err(on("copy the attributes of", from))?;
    Ok(Some((metadata, attributes)))
}

fn copy_entry(from: &Path, to: &Path, metadata: &Metadata) -> Result<(), PathError> {
    if metadata.is_symlink() {
        let target = fs::read_link(from).map_err(on("read", from))?;
        std::os::unix::fs::symlink(target, to).map_err(on("create", to))?;
    } else if metadata.is_file() {
        let source = content::open(from).map_err(on("open", from))?;
        content::copy(&source, metadata, to).map_err(on("copy", from))?;
    } else {
        // Whiteouts are devices.
        let kind = FileType::from_raw_mode(metadata.mode());
        match rustix::fs::mknodat(CWD, to, kind, rustix::fs::Mode::empty(), metadata.rdev()) {
            // A socket without its listener is of no use to anybody.
            Err(_) if kind.is_socket() => return Ok(()),
            other => other.map_err(on("create", to))?,
        }
    }
    copy_attributes(from, to, metadata)
}

/// Copies one entry, a directory without what is in it, and without what overlayfs writes down about a layer.
pub fn alone(from: &Path, to: &Path) -> Result<(), PathError> {
    let metadata = fs::symlink_metadata(from).map_err(on("examine", from))?;
    if metadata.is_dir() {
        fs::DirBuilder::new().mode(0o700).create(to).map_err(on("create", to))?;
        return copy_looks(from, to, &metadata);
    }
    copy_entry(from, to, &metadata)
}

/// Copies one tree of a layer that was copied from reality, with what is known about where it came from. What is untouched in `from` is
/// so in `to`; the caller writes that down.
pub fn copied_layer(from: &Path, to: &Path) -> Result<Option<Copied>, PathError> {
    layer(from, to)?;
    Copied::read(from)?.map(|known| known.carried(from, to)).transpose()
}

/// Only "no such file" means that something is not there.
fn if_there<T>(found: io::Result<T>) -> io::Result<Option<T>> {
    match found {
        Ok(found) => Ok(Some(found)),
        // A link in place of what was listed (`ELOOP`) is something else that came meanwhile: what was there is gone.
        Err(error) if is_gone(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

fn is_gone(error: &io::Error) -> bool {
    use rustix::io::Errno;
    [Errno::NOENT, Errno::NOTDIR, Errno::LOOP].iter().any(|e| error.raw_os_error() == Some(e.raw_os_error()))
}
