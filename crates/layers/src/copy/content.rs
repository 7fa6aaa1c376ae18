//! The bytes of a file: shared blocks where the file system can, else copied, with holes left as holes.

use std::fs::{File, Metadata};
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

/// Never follows a link and never waits for the other end of a pipe: reality can change while it is copied.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    File::options().read(true).custom_flags(flags.bits() as i32).open(path)
}

pub(super) fn copy(source: &File, metadata: &Metadata, to: &Path) -> io::Result<()> {
    let target = File::options().write(true).create_new(true).mode(0o600).open(to)?;
    if metadata.size() == 0 || rustix::fs::ioctl_ficlone(&target, source).is_ok() {
        return Ok(());
    }
    if metadata.blocks() * 512 < metadata.size() { copy_extents(source, &target) } else { copy_all(source, &target) }
}

fn copy_all(mut source: &File, mut target: &File) -> io::Result<()> {
    io::copy(&mut source, &mut target).map(drop)
}

/// Copies what is there and leaves the holes. The last hole counts towards the length.
fn copy_extents(mut source: &File, mut target: &File) -> io::Result<()> {
    let length = source.metadata()?.len();
    target.set_len(length)?;
    let mut at = 0;
    while at < length {
        let start = match rustix::fs::seek(source, rustix::fs::SeekFrom::Data(at)) {
            Ok(start) => start,
            // Only a hole is left.
            Err(Errno::NXIO) => break,
            // This file system knows no holes.
            Err(Errno::INVAL) if at == 0 => {
                source.seek(SeekFrom::Start(0))?;
                return copy_all(source, target);
            }
            Err(errno) => return Err(errno.into()),
        };
        let end = rustix::fs::seek(source, rustix::fs::SeekFrom::Hole(start))?;
        source.seek(SeekFrom::Start(start))?;
        target.seek(SeekFrom::Start(start))?;
        io::copy(&mut source.take(end - start), &mut target)?;
        at = end;
    }
    Ok(())
}
