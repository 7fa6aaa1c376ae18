//! Everything but directories: linked, or copied where that cannot be.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, ioctl_ficlone, linkat, mknodat, openat, readlinkat, symlinkat};
use rustix::io::Errno;

use super::Merged;
use super::attributes::{self, At};

/// Puts an entry of a layer into the merged one, and counts it.
pub(super) fn bring(from: At<'_>, stat: &Stat, to: At<'_>, merged: &mut Merged) -> io::Result<()> {
    match linkat(from.directory, from.name, to.directory, to.name, AtFlags::empty()) {
        Ok(()) => merged.linked += 1,
        // Too many links, another file system, or something the system does not let us link.
        Err(Errno::MLINK | Errno::XDEV | Errno::PERM) => {
            merged.bytes += copy(from, stat, to)?;
            merged.copied += 1;
        }
        Err(errno) => return Err(errno.into()),
    }
    merged.files += 1;
    Ok(())
}

/// A copy, with everything that was the original's. Returns the bytes written.
pub(super) fn copy(from: At<'_>, stat: &Stat, to: At<'_>) -> io::Result<u64> {
    let mut bytes = 0;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => bytes = copy_content(from, to)?,
        FileType::Symlink => symlinkat(readlinkat(from.directory, from.name, Vec::new())?, to.directory, to.name)?,
        kind => mknodat(to.directory, to.name, kind, Mode::RUSR | Mode::WUSR, stat.st_rdev)?,
    }
    attributes::copy(from, stat, to, |_| true)?;
    Ok(bytes)
}

fn copy_content(from: At<'_>, to: At<'_>) -> io::Result<u64> {
    let always = OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let source = File::from(openat(from.directory, from.name, OFlags::RDONLY | OFlags::NONBLOCK | always, Mode::empty())?);
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | always;
    let target = File::from(openat(to.directory, to.name, flags, Mode::RUSR | Mode::WUSR)?);
    if ioctl_ficlone(&target, &source).is_ok() {
        return Ok(0);
    }
    let bytes = copy_extents(&source, &target)?;
    // A rename reaches the disk before data does, and what is copied here may exist nowhere else soon.
    target.sync_data()?;
    Ok(bytes)
}

/// Copies what is there and leaves the holes.
fn copy_extents(mut source: &File, mut target: &File) -> io::Result<u64> {
    let length = source.metadata()?.len();
    target.set_len(length)?;
    let (mut bytes, mut at) = (0, 0);
    while at < length {
        let start = match rustix::fs::seek(source, rustix::fs::SeekFrom::Data(at)) {
            Ok(start) => start,
            // Only a hole is left.
            Err(Errno::NXIO) => break,
            Err(errno) => return Err(errno.into()),
        };
        let end = rustix::fs::seek(source, rustix::fs::SeekFrom::Hole(start))?;
        source.seek(SeekFrom::Start(start))?;
        target.seek(SeekFrom::Start(start))?;
        bytes += io::copy(&mut source.take(end - start), &mut target)?;
        at = end;
    }
    Ok(bytes)
}
