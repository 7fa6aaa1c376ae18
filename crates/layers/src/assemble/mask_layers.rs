//! Makes the mask layers, in memory.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{
    AtFlags, CWD, Gid, Mode, OFlags, Timespec, Timestamps, Uid, chmodat, chownat, fstat, linkat, mkdirat, openat, utimensat,
};
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
    let made_by = fstat(&memory).map_err(step("make room for masks"))?;
    let owners = Owners { identity, made_by: (made_by.st_uid, made_by.st_gid) };
    for (number, mask) in masks.layers.iter().enumerate() {
        make_one(&memory, number, mask, owners).map_err(step("make the masks"))?;
    }
    make_files(&memory, &masks.files, owners).map_err(step("make the masks"))
}

/// Whom things belong to outside.
#[derive(Clone, Copy)]
struct Owners {
    identity: Identity,
    /// Whoever makes something here.
    made_by: (u32, u32),
}

fn make_files(memory: &OwnedFd, files: &[MaskFile], owners: Owners) -> rustix::io::Result<()> {
    if files.is_empty() {
        return Ok(());
    }
    mkdirat(memory, FILES, Mode::RWXU)?;
    files.iter().enumerate().try_for_each(|(number, file)| make_file(memory, &place_of(number), file, owners))
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

fn make_one(memory: &OwnedFd, number: usize, mask: &MaskLayer, owners: Owners) -> rustix::io::Result<()> {
    let root = PathBuf::from(number.to_string());
    mkdirat(memory, &root, Mode::RWXU)?;
    for directory in mask.directories.iter().filter(|d| !d.path.as_os_str().is_empty()) {
        mkdirat(memory, root.join(&directory.path), Mode::RWXU)?;
    }
    // One file with many names: another name takes half the time of another file.
    let mut first: Option<PathBuf> = None;
    for path in mask.hidden.iter().map(|path| root.join(path)) {
        let made = match &first {
            Some(first) => linkat(memory, first, memory, &path, AtFlags::empty()),
            None => whiteout::make(memory, &path),
        };
        match made {
            Ok(()) => _ = first.get_or_insert(path),
            Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno),
        }
    }
    for file in &mask.rewritten {
        make_file(memory, &root.join(&file.path), file, owners)?;
    }
    // Deepest first: filling a directory changes its times.
    for directory in mask.directories.iter().rev() {
        let path = if directory.path.as_os_str().is_empty() { root.clone() } else { root.join(&directory.path) };
        apply(memory, &path, directory.attributes, owners)?;
    }
    Ok(())
}

fn make_file(memory: &OwnedFd, path: &Path, file: &MaskFile, owners: Owners) -> rustix::io::Result<()> {
    let made = openat(memory, path, OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR)?;
    let mut rest = file.content.as_bytes();
    while !rest.is_empty() {
        rest = &rest[rustix::io::write(&made, rest)?..];
    }
    apply(memory, path, file.attributes, owners)
}

fn apply(memory: &OwnedFd, path: &Path, attributes: Attributes, owners: Owners) -> rustix::io::Result<()> {
    // An ordinary user can own things only as itself.
    let uid = owners.identity.outer(attributes.uid).unwrap_or(owners.identity.outer_uid());
    let gid = owners.identity.outer(attributes.gid).unwrap_or(owners.identity.outer_gid());
    if (uid, gid) != owners.made_by {
        chownat(memory, path, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid)), AtFlags::SYMLINK_NOFOLLOW)?;
    }
    chmodat(memory, path, Mode::from_raw_mode(attributes.mode), AtFlags::empty())?;
    let time = Timespec { tv_sec: attributes.mtime.0, tv_nsec: attributes.mtime.1 };
    utimensat(memory, path, &Timestamps { last_access: time, last_modification: time }, AtFlags::SYMLINK_NOFOLLOW)
}
