//! What fuse-overlayfs takes for marks although any program can make it.
//!
//! It marks deletions by devices 0:0 and opaque directories by attributes that no program inside can make. Where the file system has
//! neither, it uses files named `.wh.<name>` instead. It *reads* those everywhere, and `user.overlay.opaque` too, and programs can
//! make both (by mkdir, link, symlink or rename; by setfattr). So in a layer they are what they are, files, directories and
//! attributes, and fuse-overlayfs is not mounted over them.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{AtFlags, statat, unlinkat};
use rustix::io::Errno;

use crate::attribute::{self, Names};
use crate::format::Format;
use crate::whiteout;

const WHITEOUT: &str = ".wh.";
/// Made in every opaque directory next to its attribute.
pub(crate) const OPAQUE_FILES: [&str; 2] = [".wh..wh..opq", ".wh..opq"];
const FORGED_OPAQUE: &str = "user.overlay.opaque";
const PROBE: &str = "probe";

/// Whether fuse-overlayfs takes anything of this name for a whiteout of another one, and so does not show it.
#[must_use]
pub fn is_whiteout_name(name: &OsStr) -> bool {
    name.as_bytes().starts_with(WHITEOUT.as_bytes())
}

/// Whether it does not show what a directory has at a name, because of another one in it.
pub fn is_hidden(directory: impl AsFd, name: &OsStr) -> Result<bool, Errno> {
    let whiteout = [WHITEOUT.as_bytes(), name.as_bytes()].concat();
    match statat(directory, OsStr::from_bytes(&whiteout), AtFlags::SYMLINK_NOFOLLOW) {
        Ok(_) => Ok(true),
        Err(Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG) => Ok(false),
        Err(errno) => Err(errno),
    }
}

/// Whether it would take a directory for opaque, or not, by an attribute that a program set.
pub fn has_forged_opaque(directory: &impl AsFd) -> Result<bool, Errno> {
    Ok(Names::of(directory)?.iter().any(|name| name == FORGED_OPAQUE.as_bytes()))
}

/// Fails where it would have to mark deletions by files.
pub fn try_whiteout(directory: &impl AsFd) -> Result<(), Errno> {
    whiteout::make(directory, PROBE)?;
    unlinkat(directory, PROBE, AtFlags::empty())
}

/// Fails where it would have to mark opaque directories by files.
pub fn try_attribute(directory: &impl AsFd) -> Result<(), Errno> {
    let try_one = |prefix: &str| {
        let name = format!("{prefix}{PROBE}");
        attribute::set(directory, &name, b"y").and_then(|()| attribute::remove(directory, &name))
    };
    let mut result = Err(Errno::NOTSUP);
    for prefix in Format::Fuse.prefixes() {
        result = try_one(prefix);
        if result.is_ok() {
            break;
        }
    }
    result
}
