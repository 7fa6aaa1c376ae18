//! Makes the mask layers, in memory.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Gid, Mode, OFlags, Timespec, Timestamps, Uid, chmodat, chownat, mkdirat, openat, utimensat};
use rustix::io::Errno;
use whatif_overlay::whiteout;
use whatif_sys::mount::Reach;
use whatif_types::Identity;
use whatif_types::boot::{Attributes, MaskFile, MaskLayer, Masks};

use super::{AssembleError, MASKS, mounts, relative, step};

/// Where the files for read-only places are, by their numbers, next to the layers.
const FILES: &str = "files";

/// Makes one directory on the stage for each place that has something to hide.
pub(super) fn make(masks: &Masks, identity: Identity) -> Result<(), AssembleError> {
    rustix::fs::mkdir(MASKS, Mode::RWXU).map_err(step("make room for masks"))?;
    let memory = rustix::fs::open(MASKS, mounts::DIRECTORY, Mode::empty()).map_err(step("make room for masks"))?;
    for (number, mask) in masks.layers.iter().enumerate() {
        make_one(&memory, number, mask, identity).map_err(step("make the masks"))?;
    }
    make_files(&memory, &masks.files, identity).map_err(step("make the masks"))
}

fn make_files(memory: &OwnedFd, files: &[MaskFile], identity: Identity) -> rustix::io::Result<()> {
    if files.is_empty() {
        return Ok(());
    }
    mkdirat(memory, FILES, Mode::RWXU)?;
    files.iter().enumerate().try_for_each(|(number, file)| make_file(memory, &place_of(number), file, identity))
}

fn place_of(number: usize) -> PathBuf {
    Path::new(FILES).join(number.to_string())
}

/// Mounts rewritten files over the real ones on read-only places.
pub(super) fn cover_files(masks: &Masks, root: &OwnedFd) -> Result<(), AssembleError> {
    for (number, file) in masks.files.iter().enumerate() {
        let shown = file.path.display();
        let place = match mounts::target(root, relative(&file.path)) {
            // Reality has removed it meanwhile.
            Err(Errno::NOENT | Errno::NOTDIR) => continue,
            other => other.map_err(step(format!("open {shown} to mount on it")))?,
        };
        let made = mounts::clone_at(CWD, &Path::new(MASKS).join(place_of(number)), Reach::One);
        let made = made.map_err(step(format!("find what is shown at {shown}")))?;
        mounts::make_read_only(&made, Reach::One).map_err(step(format!("make {shown} read-only")))?;
        mounts::attach_on(&made, &place).map_err(step(format!("mount what is shown at {shown}")))?;
    }
    Ok(())
}

/// The mask layer of a place, by its name on the stage.
pub(super) fn layer_of(masks: &Masks, place: &Path) -> Option<String> {
    masks.layers.iter().position(|mask| mask.place == place).map(|number| format!("{MASKS}/{number}"))
}

fn make_one(memory: &OwnedFd, number: usize, mask: &MaskLayer, identity: Identity) -> rustix::io::Result<()> {
    let root = PathBuf::from(number.to_string());
    mkdirat(memory, &root, Mode::RWXU)?;
    for directory in mask.directories.iter().filter(|d| !d.path.as_os_str().is_empty()) {
        mkdirat(memory, root.join(&directory.path), Mode::RWXU)?;
    }
    for path in &mask.hidden {
        match whiteout::make(memory, root.join(path)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
    }
    for file in &mask.rewritten {
        make_file(memory, &root.join(&file.path), file, identity)?;
    }
    // Deepest first: filling a directory changes its times.
    for directory in mask.directories.iter().rev() {
        let path = if directory.path.as_os_str().is_empty() { root.clone() } else { root.join(&directory.path) };
        apply(memory, &path, directory.attributes, identity)?;
    }
    Ok(())
}

fn make_file(memory: &OwnedFd, path: &Path, file: &MaskFile, identity: Identity) -> rustix::io::Result<()> {
    let made = openat(memory, path, OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR)?;
    let mut rest = file.content.as_bytes();
    while !rest.is_empty() {
        rest = &rest[rustix::io::write(&made, rest)?..];
    }
    apply(memory, path, file.attributes, identity)
}

fn apply(memory: &OwnedFd, path: &Path, attributes: Attributes, identity: Identity) -> rustix::io::Result<()> {
    // An ordinary user can own things only as itself.
    let uid = identity.outer(attributes.uid).unwrap_or(identity.outer_uid());
    let gid = identity.outer(attributes.gid).unwrap_or(identity.outer_gid());
    chownat(memory, path, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)), AtFlags::SYMLINK_NOFOLLOW)?;
    chmodat(memory, path, Mode::from_raw_mode(attributes.mode), AtFlags::empty())?;
    let time = Timespec { tv_sec: attributes.mtime.0, tv_nsec: attributes.mtime.1 };
    utimensat(memory, path, &Timestamps { last_access: time, last_modification: time }, AtFlags::SYMLINK_NOFOLLOW)
}
