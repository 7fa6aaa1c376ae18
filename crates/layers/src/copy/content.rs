//! The bytes of a file: shared blocks where the file system can, else copied, with holes left as holes.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

/// Small enough that holes between written pieces are found, large enough to be quick.
const PIECE: usize = 64 << 10;

/// Never follows a link and never waits for the other end of a pipe: reality can change while it is copied.
pub(super) fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    File::options().read(true).custom_flags(flags.bits() as i32).open(path)
}

pub(super) fn copy(source: &File, metadata: &Metadata, to: &Path) -> io::Result<()> {
    let target = File::options().write(true).create_new(true).mode(0o600).open(to)?;
    // Reality's files have no content that their size does not speak of.
    if metadata.size() == 0 { Ok(()) } else { fill(source, &target).map(drop) }
}

/// Copies all of a file into an empty one, and says how long that is.
pub fn fill(source: &File, target: &File) -> io::Result<u64> {
    fill_telling(source, target, &mut |_| {})
}

/// The same, telling meanwhile how much was copied.
pub fn fill_telling(source: &File, target: &File, tell: &mut dyn FnMut(u64)) -> io::Result<u64> {
    let metadata = match source.metadata() {
        // A sandbox over fuse answers only those inside what a file is, and lets others read what they were handed.
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return copy_unmeasured(source, target),
        other => other?,
    };
    if metadata.size() > 0 && rustix::fs::ioctl_ficlone(target, source).is_ok() {
        return Ok(metadata.size());
    }
    if metadata.blocks() * 512 < metadata.size() { copy_extents(source, target) } else { copy_in_parts(source, target, tell) }
}

/// Each part in one system call, where the file system can.
fn copy_in_parts(source: &File, mut target: &File, tell: &mut dyn FnMut(u64)) -> io::Result<u64> {
    const PART: u64 = 16 << 20;
    let mut copied = 0;
    loop {
        let part = io::copy(&mut source.take(PART), &mut target)?;
        copied += part;
        if part < PART {
            return Ok(copied);
        }
        tell(copied);
    }
}

/// Copies until there is no more.
fn copy_unmeasured(source: &File, target: &File) -> io::Result<u64> {
    let length = copy_written(source, target, 0, u64::MAX)?;
    target.set_len(length)?;
    Ok(length)
}

/// Copies what is there and leaves the holes. The last hole counts towards the length.
fn copy_extents(source: &File, target: &File) -> io::Result<u64> {
    let length = source.metadata()?.len();
    stretch(target, length)?;
    let mut at = 0;
    while at < length {
        let start = match rustix::fs::seek(source, rustix::fs::SeekFrom::Data(at)) {
            Ok(start) => start,
            // Only a hole is left.
            Err(Errno::NXIO) => break,
            // This file system knows no holes.
            Err(Errno::INVAL) if at == 0 => {
                copy_written(source, target, 0, length)?;
                break;
            }
            Err(errno) => return Err(errno.into()),
        };
        let end = rustix::fs::seek(source, rustix::fs::SeekFrom::Hole(start))?;
        copy_written(source, target, start, end)?;
        at = end;
    }
    Ok(length)
}

/// Gives an empty file a length. Fuse lets only those inside say so, but whoever was handed a file may write its last byte.
fn stretch(target: &File, length: u64) -> io::Result<()> {
    match target.set_len(length) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => target.write_all_at(&[0], length.saturating_sub(1)),
        other => other,
    }
}

/// Zeros are left out: fuse shows holes as data. Says where it ended.
fn copy_written(source: &File, target: &File, start: u64, end: u64) -> io::Result<u64> {
    let mut buffer = vec![0; PIECE];
    let mut at = start;
    while at < end {
        let wanted = usize::try_from(end - at).unwrap_or(PIECE).min(PIECE);
        let piece = match source.read_at(&mut buffer[..wanted], at) {
            // It became shorter meanwhile.
            Ok(0) => break,
            Ok(read) => &buffer[..read],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if piece.iter().any(|byte| *byte != 0) {
            target.write_all_at(piece, at)?;
        }
        at += piece.len() as u64;
    }
    Ok(at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_copy_tells_how_far_it_is() {
        let directory = std::env::temp_dir().join(format!("whatif-long-copy-{}", std::process::id()));
        std::fs::create_dir(&directory).expect("a directory for this test");
        let create = |name: &str| File::options().read(true).write(true).create_new(true).open(directory.join(name));
        let (source, target) = (create("source").expect("it is new"), create("target").expect("it is new"));
        let piece = [7; 1 << 20];
        (0..33).for_each(|at| source.write_all_at(&piece, at << 20).expect("there is room"));
        let mut told = Vec::new();
        let copied = copy_in_parts(&source, &target, &mut |so_far| told.push(so_far >> 20)).expect("it can be copied");
        let length = target.metadata().expect("it is there").len();
        std::fs::remove_dir_all(&directory).expect("it is ours");
        assert_eq!((copied, length, told), (33 << 20, 33 << 20, vec![16, 32]));
    }
}
