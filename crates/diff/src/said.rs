//! What a layer says about its entries, together with what a review carries of them.

use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, Stat, statat};
use rustix::io::Errno;
use whatif_overlay::{Format, Mark, Way, fuse};
use whatif_sys::direct;

use crate::attributes::{self, Attributes};
use crate::node::{Kind, Node};

/// What a layer's directory says about itself.
pub(crate) struct Directory {
    pub attributes: Attributes,
    pub way: Way,
    pub is_copied_up: bool,
}

impl Directory {
    pub(crate) fn read(format: Format, directory: &OwnedFd) -> Result<Self, Errno> {
        Self::with(format, directory, format.read(directory)?)
    }

    /// Of the one that a layer begins with.
    pub(crate) fn read_root(format: Format, directory: &OwnedFd) -> Result<Self, Errno> {
        Self::with(format, directory, format.read_root(directory)?)
    }

    fn with(format: Format, directory: &OwnedFd, said: whatif_overlay::Said) -> Result<Self, Errno> {
        let has_any = said.attributes.iter().any(|name| attributes::is_carried(name, format));
        let attributes = if has_any { attributes::of_held(directory, format)? } else { Attributes::new() };
        Ok(Self { attributes, way: said.way, is_copied_up: said.is_copied_up })
    }

    /// Whether it shows something else than what lies below it at the same path.
    pub(crate) fn is_put(&self) -> bool {
        self.way != Way::Down
    }
}

/// Whether an entry of a layer, where there is one below, is that one copied up rather than made inside.
pub(crate) fn is_copied_up(format: Format, path: &Path, kind: Kind) -> Result<bool, Errno> {
    let entry = direct::hold(path)?;
    match kind {
        Kind::Directory => Ok(format.read(&entry)?.is_copied_up),
        _ => format.has(&entry, Mark::Origin),
    }
}

/// Whether an entry of a layer says that what has its name below is gone.
pub(crate) fn is_whiteout(format: Format, directory: &OwnedFd, name: &OsStr, node: &Node) -> Result<bool, Errno> {
    match may_be_mark(node) {
        true => format.is_whiteout(directory, name, &stat(directory, name)?),
        false => Ok(false),
    }
}

/// Whether an entry exists only to say something about its directory.
pub(crate) fn is_bookkeeping(format: Format, directory: &OwnedFd, name: &OsStr, node: &Node) -> Result<bool, Errno> {
    match format == Format::Fuse && fuse::is_whiteout_name(name) && may_be_mark(node) {
        true => format.is_bookkeeping(directory, name, &stat(directory, name)?),
        false => Ok(false),
    }
}

/// Whether a name in reality is not shown because of another one: fuse-overlayfs takes reality's own files for marks too.
pub(crate) fn is_hidden_in_reality(format: Format, reality: &OwnedFd, name: &OsStr) -> Result<bool, Errno> {
    Ok(format == Format::Fuse && (fuse::is_whiteout_name(name) || fuse::is_hidden(reality, name)?))
}

/// Most entries are not, and a node does not tell one kind of device from the other.
fn may_be_mark(node: &Node) -> bool {
    match node.kind {
        Kind::Device => node.rdev == 0,
        Kind::File => node.size == 0,
        _ => false,
    }
}

fn stat(directory: &OwnedFd, name: &OsStr) -> Result<Stat, Errno> {
    statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)
}
