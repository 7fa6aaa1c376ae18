//! Makes the mask layers, in memory.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, Timespec, Timestamps, Uid, chmodat, chownat, mkdirat, mknodat, openat, utimensat,
};
use rustix::io::Errno;
use whatif_types::Identity;
use whatif_types::boot::{Attributes, TreeMask};

use super::{AssembleError, MASKS, step};

/// Makes one directory on the stage for each tree that has something to hide, named by its number.
pub(super) fn make(masks: &[TreeMask], identity: Identity) -> Result<(), AssembleError> {
    rustix::fs::mkdir(MASKS, Mode::RWXU).map_err(step("make room for masks"))?;
    let memory = rustix::fs::open(MASKS, super::mounts::DIRECTORY, Mode::empty()).map_err(step("make room for masks"))?;
    for mask in masks {
        make_one(&memory, mask, identity).map_err(step("make the masks"))?;
    }
    Ok(())
}

fn make_one(memory: &OwnedFd, mask: &TreeMask, identity: Identity) -> rustix::io::Result<()> {
    let root = PathBuf::from(mask.tree.to_string());
    mkdirat(memory, &root, Mode::RWXU)?;
    for directory in mask.directories.iter().filter(|d| !d.path.as_os_str().is_empty()) {
        mkdirat(memory, root.join(&directory.path), Mode::RWXU)?;
    }
    for path in &mask.hidden {
        // Overlayfs's mark for "nothing here": a character device 0:0, which any user may make.
        match mknodat(memory, root.join(path), FileType::CharacterDevice, Mode::empty(), 0) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
    }
    for file in &mask.rewritten {
        let path = root.join(&file.path);
        let made =
            openat(memory, &path, OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR)?;
        let mut rest = file.content.as_bytes();
        while !rest.is_empty() {
            rest = &rest[rustix::io::write(&made, rest)?..];
        }
        apply(memory, &path, file.attributes, identity)?;
    }
    // Deepest first: filling a directory changes its times.
    for directory in mask.directories.iter().rev() {
        let path = if directory.path.as_os_str().is_empty() { root.clone() } else { root.join(&directory.path) };
        apply(memory, &path, directory.attributes, identity)?;
    }
    Ok(())
}

fn apply(memory: &OwnedFd, path: &Path, attributes: Attributes, identity: Identity) -> rustix::io::Result<()> {
    let (uid, gid) = match identity {
        Identity::Mapped { base, count } => {
            let outer = |id: u32| base + if id < count { id } else { 65_534 };
            (outer(attributes.uid), outer(attributes.gid))
        }
        Identity::Same => (attributes.uid, attributes.gid),
        // An ordinary user can own things only as itself.
        Identity::Own { uid, gid } => (uid, gid),
    };
    chownat(memory, path, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)), AtFlags::SYMLINK_NOFOLLOW)?;
    chmodat(memory, path, Mode::from_raw_mode(attributes.mode), AtFlags::empty())?;
    let time = Timespec { tv_sec: attributes.mtime.0, tv_nsec: attributes.mtime.1 };
    utimensat(memory, path, &Timestamps { last_access: time, last_modification: time }, AtFlags::SYMLINK_NOFOLLOW)
}
