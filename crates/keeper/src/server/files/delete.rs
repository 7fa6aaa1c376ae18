//! Deletes a directory and all beneath it, in steps. No link is followed and no mount entered.
//!
//! Processes inside may move directories meanwhile. Each step goes down by a name in a directory that is held, and up only to the
//! directory it came from; where that is not above any more, it begins again at the top, which is held too.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, fstat, openat2, statat, unlinkat};
use rustix::io::Errno;

use super::jobs::{Slice, Step};
use super::place::{Place, Trouble};
use crate::protocol::Reply;

/// Nobody has directories as deep as that; what is above the current one is remembered.
const DEEPEST: usize = 100_000;
/// How often what was emptied may be found to have something in it again.
const MOST_RETRIES: usize = 1000;

pub(super) struct Delete {
    place: Place,
    top: OwnedFd,
    /// From the one beneath the top to the current one: their names, and what they are in.
    above: Vec<(CString, Identity)>,
    /// None at the top.
    current: Option<OwnedFd>,
    names: Option<Dir>,
    retries: usize,
}

type Identity = (u64, u64);

impl Delete {
    pub(super) fn begin(place: Place) -> Result<Self, Trouble> {
        let top = open(&place.parent, &place.name)?;
        Ok(Self { place, top, above: Vec::new(), current: None, names: None, retries: 0 })
    }

    pub(super) fn step(&mut self, slice: &Slice) -> Result<Step, Trouble> {
        while !slice.is_over() {
            if self.delete_next()? {
                return Ok(Step::Done(Reply::Done));
            }
        }
        Ok(Step::More)
    }

    /// Whether that was the last.
    fn delete_next(&mut self) -> Result<bool, Trouble> {
        let directory = self.current.as_ref().unwrap_or(&self.top);
        let names = match &mut self.names {
            Some(names) => names,
            empty => empty.insert(Dir::read_from(directory)?),
        };
        let Some(entry) = names.read() else { return self.leave() };
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            return Ok(false);
        }
        match is_directory(directory, name, entry.file_type()) {
            Ok(true) => self.go_down(name.to_owned())?,
            Ok(false) => match unlinkat(directory, name, AtFlags::empty()) {
                Ok(()) | Err(Errno::NOENT) => {}
                // It has become a directory.
                Err(Errno::ISDIR) => self.retry(Errno::ISDIR)?,
                Err(errno) => return Err(errno.into()),
            },
            Err(Errno::NOENT) => {}
            Err(errno) => return Err(errno.into()),
        }
        Ok(false)
    }

    fn go_down(&mut self, name: CString) -> Result<(), Trouble> {
        let directory = self.current.as_ref().unwrap_or(&self.top);
        if unlinkat(directory, &name, AtFlags::REMOVEDIR).is_ok() {
            return Ok(());
        }
        if self.above.len() >= DEEPEST {
            return Err(Errno::NAMETOOLONG.into());
        }
        let opened = match open(directory, &name) {
            Ok(opened) => opened,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return self.retry(Errno::NOTDIR),
            Err(errno) => return Err(errno.into()),
        };
        let identity = identity(directory)?;
        self.above.push((name, identity));
        (self.current, self.names) = (Some(opened), None);
        Ok(())
    }

    /// The current directory is empty, as far as we have seen.
    fn leave(&mut self) -> Result<bool, Trouble> {
        self.names = None;
        let Some(current) = self.current.take() else {
            return match unlinkat(&self.place.parent, &self.place.name, AtFlags::REMOVEDIR) {
                Ok(()) | Err(Errno::NOENT) => Ok(true),
                Err(errno @ Errno::NOTEMPTY) => self.retry(errno).map(|()| false),
                Err(errno) => Err(errno.into()),
            };
        };
        let Some((name, came_from)) = self.above.pop() else { return Err(Errno::INVAL.into()) };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let parent = openat2(&current, "..", flags, Mode::empty(), ResolveFlags::NO_XDEV)?;
        if identity(&parent)? != came_from {
            self.above.clear();
            return self.retry(Errno::NOTEMPTY).map(|()| false);
        }
        match unlinkat(&parent, &name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(errno @ (Errno::NOTEMPTY | Errno::NOTDIR)) => self.retry(errno)?,
            Err(errno) => return Err(errno.into()),
        }
        if !self.above.is_empty() {
            self.current = Some(parent);
        }
        Ok(false)
    }

    /// What is there is looked at again, unless somebody makes more of it for ever.
    fn retry(&mut self, errno: Errno) -> Result<(), Trouble> {
        self.names = None;
        self.retries += 1;
        if self.retries > MOST_RETRIES { Err(errno.into()) } else { Ok(()) }
    }
}

fn is_directory(directory: &OwnedFd, name: &CStr, kind: FileType) -> rustix::io::Result<bool> {
    match kind {
        FileType::Unknown => {
            statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).map(|stat| FileType::from_raw_mode(stat.st_mode).is_dir())
        }
        known => Ok(known.is_dir()),
    }
}

fn identity(directory: &OwnedFd) -> rustix::io::Result<Identity> {
    fstat(directory).map(|stat| (stat.st_dev, stat.st_ino))
}

fn open(at: &impl AsFd, name: &CStr) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let how = ResolveFlags::NO_XDEV | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    openat2(at, name, flags, Mode::empty(), how)
}
