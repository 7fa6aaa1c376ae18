//! Copies what is in a file: shared blocks where the file system can, the kernel's own copying where not, holes kept.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags, SeekFrom};
use rustix::io::{Errno, retry_on_intr};
use rustix::path::Arg;

use crate::look::{Seen, look_at};
use crate::plan::Kind;

/// Up to here one read and one write are quicker than asking for anything cleverer.
const SMALL: u64 = 64 * 1024;
/// Between two of these it can be stopped.
const CHUNK: usize = 128 << 20;

/// Remembers what does not work, so that it is not tried for each of ten thousand files.
pub(crate) struct Copier<'a> {
    is_cancelled: &'a dyn Fn() -> bool,
    /// Device of source and target that cannot share blocks.
    unshared: Option<(u64, u64)>,
    buffer: Vec<u8>,
}

impl Copier<'static> {
    pub(crate) fn new() -> Self {
        Self::until(&|| false)
    }
}

impl<'a> Copier<'a> {
    /// Gives up between two chunks once it is cancelled.
    pub(crate) fn until(is_cancelled: &'a dyn Fn() -> bool) -> Self {
        Self { is_cancelled, unshared: None, buffer: vec![0; SMALL as usize] }
    }

    fn go_on(&self) -> io::Result<()> {
        if (self.is_cancelled)() { Err(Errno::CANCELED.into()) } else { Ok(()) }
    }

    /// Copies all of `source` into the empty file `target`. Fails if the source changes meanwhile.
    pub(crate) fn copy(&mut self, source: &OwnedFd, target: &OwnedFd, device: u64) -> io::Result<Seen> {
        let before = look_at(source)?;
        if before.identity.kind != Kind::File {
            return Err(io::Error::other("not a regular file"));
        }
        let size = before.identity.size;
        if size > 0 {
            let sparse = before.bytes < size;
            let pair = (before.identity.dev, device);
            if self.unshared == Some(pair) || !self.share(source, target, pair)? {
                match size {
                    0..=SMALL if !sparse => self.through_buffer(source, target, 0, size)?,
                    _ if sparse => self.segments(source, target, size)?,
                    _ => self.range(source, target, 0, size)?,
                }
            }
        }
        let after = look_at(source)?;
        let unchanged = (after.identity.size, after.identity.mtime) == (size, before.identity.mtime);
        if unchanged { Ok(before) } else { Err(io::Error::other("the source changed while it was copied")) }
    }

    fn share(&mut self, source: &OwnedFd, target: &OwnedFd, pair: (u64, u64)) -> io::Result<bool> {
        match retry_on_intr(|| rustix::fs::ioctl_ficlone(target, source)) {
            Ok(()) => Ok(true),
            Err(Errno::OPNOTSUPP | Errno::XDEV | Errno::NOTTY | Errno::NOSYS) => {
                self.unshared = Some(pair);
                Ok(false)
            }
            Err(Errno::INVAL | Errno::TXTBSY | Errno::PERM | Errno::ISDIR) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Only what is data; the rest stays a hole.
    fn segments(&mut self, source: &OwnedFd, target: &OwnedFd, size: u64) -> io::Result<()> {
        rustix::fs::ftruncate(target, size)?;
        let mut position = 0;
        while position < size {
            let start = match rustix::fs::seek(source, SeekFrom::Data(position)) {
                Ok(start) => start,
                Err(Errno::NXIO) => break,
                Err(Errno::INVAL) => return self.range(source, target, position, size),
                Err(errno) => return Err(errno.into()),
            };
            let end = rustix::fs::seek(source, SeekFrom::Hole(start))?.min(size);
            self.range(source, target, start, end)?;
            position = end;
        }
        Ok(())
    }

    fn range(&mut self, source: &OwnedFd, target: &OwnedFd, start: u64, end: u64) -> io::Result<()> {
        let (mut from, mut to) = (start, start);
        while from < end {
            self.go_on()?;
            let length = usize::try_from(end - from).unwrap_or(CHUNK).min(CHUNK);
            match rustix::fs::copy_file_range(source, Some(&mut from), target, Some(&mut to), length) {
                Ok(0) => break,
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::XDEV | Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP | Errno::PERM | Errno::IO) if from == start => {
                    break;
                }
                Err(errno) => return Err(errno.into()),
            }
        }
        // Some file systems say "nothing more" where they mean "not this way".
        if from < end { self.through_buffer(source, target, from, end) } else { Ok(()) }
    }

    fn through_buffer(&mut self, source: &OwnedFd, target: &OwnedFd, start: u64, end: u64) -> io::Result<()> {
        let mut position = start;
        while position < end {
            let wanted = usize::try_from(end - position).unwrap_or(self.buffer.len()).min(self.buffer.len());
            let read = retry_on_intr(|| rustix::io::pread(source, &mut self.buffer[..wanted], position))?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            write_at(target, &self.buffer[..read], position)?;
            position += read as u64;
            if position.is_multiple_of(CHUNK as u64) {
                self.go_on()?;
            }
        }
        Ok(())
    }
}

/// Writes all of it.
pub(crate) fn write_at(target: impl AsFd, mut bytes: &[u8], mut position: u64) -> io::Result<()> {
    while !bytes.is_empty() {
        match retry_on_intr(|| rustix::io::pwrite(&target, bytes, position))? {
            0 => return Err(io::ErrorKind::WriteZero.into()),
            written => {
                bytes = &bytes[written..];
                position += written as u64;
            }
        }
    }
    Ok(())
}

/// Opens a file to copy it, which finds out whether it is a regular one. Neither follows a link nor waits for a pipe.
pub(crate) fn open_file(directory: impl AsFd, name: impl Arg + Copy) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    Ok(retry_on_intr(|| rustix::fs::openat(&directory, name, flags, Mode::empty()))?)
}

/// Makes a file that was not there before, readable by nobody else yet.
pub(crate) fn create_file(directory: impl AsFd, name: impl Arg + Copy) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(retry_on_intr(|| rustix::fs::openat(&directory, name, flags, Mode::RUSR | Mode::WUSR))?)
}
