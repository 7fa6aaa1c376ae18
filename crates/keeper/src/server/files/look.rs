//! What is said of a file, and parts of what is in it.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{OFlags, fstat, readlinkat};
use rustix::pipe::{PipeFlags, pipe_with};

use super::place::{Trouble, open_path, open_regular, require_regular, require_version, told};
use super::text_of;
use crate::protocol::{EntryKind, FileReply, FileStat};

/// The most that is read at a time. A pipe holds it.
const LARGEST_PIECE: usize = 64 << 10;

/// With `follow`, of what a link leads to.
pub(super) fn stat(path: &Path, follow: bool) -> io::Result<FileStat> {
    let held = open_path(path, if follow { OFlags::empty() } else { OFlags::NOFOLLOW })?;
    let mut stat = told(&fstat(&held)?, None);
    if stat.kind == EntryKind::Link {
        stat.link = Some(text_of(&readlinkat(&held, "", Vec::new())?));
    }
    Ok(stat)
}

/// The bytes are in the pipe already.
pub(super) fn read(
    path: &Path,
    offset: u64,
    length: u64,
    if_version: Option<&str>,
) -> Result<(FileReply, Option<OwnedFd>), Trouble> {
    let file = open_regular(path, OFlags::RDONLY)?;
    let stat = fstat(&file)?;
    require_regular(&stat)?;
    require_version(if_version, &stat)?;
    let wanted = usize::try_from(length).unwrap_or(usize::MAX).min(LARGEST_PIECE);
    let mut buffer = [0_u8; LARGEST_PIECE];
    // No file is as long as that.
    let read = if i64::try_from(offset).is_err() { 0 } else { rustix::io::pread(&file, &mut buffer[..wanted], offset)? };
    let stat = told(&stat, None);
    if read == 0 {
        return Ok((FileReply::Range { length: 0, stat }, None));
    }
    // A user who has many pipes gets smaller ones.
    let (piece, to) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    let length = rustix::io::write(&to, &buffer[..read])?;
    Ok((FileReply::Range { length, stat }, Some(piece)))
}
