//! Files that are written with what a client sends: whole in the place of another, or at the end of one.

use std::ffi::CString;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{
    AtFlags, FileType, Gid, Mode, OFlags, RenameFlags, Stat, Uid, fchmod, fchown, fstat, linkat, openat, renameat, renameat_with,
    unlinkat,
};
use rustix::io::Errno;

use super::jobs::{Slice, Step};
use super::place::{Place, Trouble, open_regular, require_regular, require_version, told};
use crate::protocol::{Condition, FileReply, Reply};

/// Read and written at a time.
const PIECE: usize = 128 << 10;
/// What a new file gets if nothing else is said.
const USUAL_MODE: u32 = 0o644;

/// Bytes on their way into a file.
pub(super) struct Fill {
    from: OwnedFd,
    file: OwnedFd,
    into: Into,
    /// What was written so far.
    written: u64,
    /// What will have been sent, once the client has said so.
    length: Option<u64>,
    /// Nothing follows any more.
    has_ended: bool,
}

enum Into {
    Replacement(Replacement),
    End,
}

/// A file that is not yet where it belongs. Dropped before that, it goes.
struct Replacement {
    place: Place,
    temporary: CString,
    mode: Option<u32>,
    condition: Condition,
    is_placed: bool,
}

impl Fill {
    pub(super) fn replace(path: &Path, mode: Option<u32>, condition: Condition, from: OwnedFd) -> Result<Self, Trouble> {
        let place = Place::beyond_links(path)?;
        check(&place, &condition)?;
        let temporary = CString::new(format!(".whatif-{}.partial", whatif_sys::random::word::<8>()?)).map_err(|_| Errno::INVAL)?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(&place.parent, &temporary, flags, Mode::RUSR | Mode::WUSR)?;
        let into = Into::Replacement(Replacement { place, temporary, mode, condition, is_placed: false });
        Self::begin(from, file, into)
    }

    pub(super) fn append(path: &Path, create: Option<u32>, if_version: Option<&str>, from: OwnedFd) -> Result<Self, Trouble> {
        let flags = OFlags::WRONLY | OFlags::APPEND;
        let file = match (open_regular(path, flags), create) {
            (Err(Trouble::Io(error)), Some(mode)) if error.raw_os_error() == Some(Errno::NOENT.raw_os_error()) => {
                if if_version.is_some() {
                    return Err(Trouble::OtherVersion);
                }
                let place = Place::beyond_links(path)?;
                let flags = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                openat(&place.parent, &place.name, flags, Mode::from_raw_mode(mode & 0o777))?
            }
            (opened, _) => opened?,
        };
        require_version(if_version, &fstat(&file)?)?;
        Self::begin(from, file, Into::End)
    }

    fn begin(from: OwnedFd, file: OwnedFd, into: Into) -> Result<Self, Trouble> {
        let fill = Self { from, file, into, written: 0, length: None, has_ended: false };
        require_regular(&fstat(&fill.file)?)?;
        rustix::io::ioctl_fionbio(&fill.from, true)?;
        Ok(fill)
    }

    pub(super) fn finish(&mut self, length: u64) {
        self.length = Some(length);
    }

    pub(super) fn is_finishing(&self) -> bool {
        self.length.is_some()
    }

    /// What to wait for, unless all of it has come.
    pub(super) fn awaited(&self) -> Option<BorrowedFd<'_>> {
        (!self.has_ended).then(|| self.from.as_fd())
    }

    pub(super) fn is_ready(&self) -> bool {
        self.has_ended && self.length.is_some()
    }

    pub(super) fn step(&mut self, slice: &Slice) -> Result<Step, Trouble> {
        let mut buffer = vec![0_u8; PIECE];
        while !self.has_ended {
            match rustix::io::read(&self.from, &mut buffer) {
                Ok(0) => self.has_ended = true,
                Ok(length) => self.put(&buffer[..length])?,
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) => return Ok(Step::Waits),
                // Whoever sends it has gone, which the connection will say.
                Err(_) => self.has_ended = true,
            }
            if slice.is_over() {
                return Ok(Step::More);
            }
        }
        match self.length {
            None => Ok(Step::Waits),
            Some(length) if length != self.written => Err(Errno::IO.into()),
            Some(_) => self.complete().map(|stat| Step::Done(Reply::Files(FileReply::Stat(told(&stat, None))))),
        }
    }

    fn put(&mut self, mut bytes: &[u8]) -> Result<(), Trouble> {
        while !bytes.is_empty() {
            match rustix::io::write(&self.file, bytes) {
                Ok(0) => return Err(Errno::NOSPC.into()),
                Ok(written) => {
                    bytes = &bytes[written..];
                    self.written += written as u64;
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    fn complete(&mut self) -> Result<Stat, Trouble> {
        if let Into::Replacement(replacement) = &mut self.into {
            replacement.put_in_place(&self.file)?;
        }
        Ok(fstat(&self.file)?)
    }
}

impl Replacement {
    fn put_in_place(&mut self, file: &OwnedFd) -> Result<(), Trouble> {
        let there = check(&self.place, &self.condition)?;
        // A write would take away what else there may be in a mode.
        let kept = there.as_ref().map(|there| there.st_mode & 0o777);
        if let Some(there) = &there {
            // It stays its owner's, where that is ours to say.
            let _ = fchown(file, Some(Uid::from_raw(there.st_uid)), Some(Gid::from_raw(there.st_gid)));
        }
        fchmod(file, Mode::from_raw_mode(self.mode.map(|mode| mode & 0o777).or(kept).unwrap_or(USUAL_MODE)))?;
        let (parent, name) = (&self.place.parent, &self.place.name);
        if self.condition != Condition::IsAbsent {
            renameat(parent, &self.temporary, parent, name)?;
            self.is_placed = true;
            return Ok(());
        }
        match renameat_with(parent, &self.temporary, parent, name, RenameFlags::NOREPLACE) {
            Ok(()) => self.is_placed = true,
            // Not every file system knows it. A link is never made in the place of something; the other name goes when we do.
            Err(Errno::INVAL) => linkat(parent, &self.temporary, parent, name, AtFlags::empty())?,
            Err(errno) => return Err(errno.into()),
        }
        Ok(())
    }
}

impl Drop for Replacement {
    fn drop(&mut self) {
        if !self.is_placed {
            // It may be gone already, and its directory with it.
            let _ = unlinkat(&self.place.parent, &self.temporary, AtFlags::empty());
        }
    }
}

/// What is to be replaced, if that may be done.
fn check(place: &Place, condition: &Condition) -> Result<Option<Stat>, Trouble> {
    let there = place.stat()?;
    match (&there, condition) {
        (Some(_), Condition::IsAbsent) => return Err(Errno::EXIST.into()),
        (None, Condition::IsVersion(_)) => return Err(Trouble::OtherVersion),
        (Some(there), _) if FileType::from_raw_mode(there.st_mode).is_symlink() => return Err(Errno::AGAIN.into()),
        (Some(there), Condition::IsVersion(version)) => {
            require_regular(there)?;
            require_version(Some(version), there)?;
        }
        (Some(there), Condition::Always) => require_regular(there)?,
        (None, _) => {}
    }
    Ok(there)
}
