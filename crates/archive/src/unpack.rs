//! Entries of an archive become files and directories.
//!
//! Everything is made anew, beneath one held directory, and belongs to nobody else until it is done: files are written with mode
//! 600, directories filled with mode 700. Owner, attributes, mode and times come when the content is complete.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, Uid};
use rustix::io::Errno;
use whatif_overlay::{Format, Mark, whiteout};

use crate::attributes::{self, Attributes, CAPABILITY, by_descriptor};
use crate::beneath::Beneath;
use crate::entry::{Entry, Kind};
use crate::error::{ArchiveError, on, shown};
use crate::filling::Filling;
use crate::names;
use crate::read::{Options, Redirect};

const OWNER_ONLY: u32 = 0o700;
const OWNER_MAY_ENTER: u32 = 0o100;
/// Directories that their own owner may not enter are rare, and each is remembered.
const MOST_CLOSED: usize = 10_000;

#[derive(Debug)]
pub(crate) struct Unpacking<'o> {
    into: Beneath,
    options: &'o Options,
    /// Directories that are being filled, outermost first.
    open: Vec<Entry>,
    /// Directories that their own owner may not enter, and their modes. A hard link may still have to lead into them, so they are
    /// closed at the end.
    closed: Vec<(Vec<u8>, u32)>,
    done: Unpacked,
}

/// What the caller has to know about what was unpacked.
#[derive(Debug, Default)]
pub(crate) struct Unpacked {
    pub capabilities_left_out: u64,
    pub redirects: Vec<Redirect>,
}

impl<'o> Unpacking<'o> {
    pub(crate) fn new(into: &Path, options: &'o Options) -> Result<Self, ArchiveError> {
        let into = Beneath::open(into)?;
        Ok(Self { into, options, open: Vec::new(), closed: Vec::new(), done: Unpacked::default() })
    }

    /// Goes to the directory of an entry, and leaves those that are complete. Only directories of the archive itself will do.
    pub(crate) fn enter(&mut self, entry: &Entry) -> Result<(), ArchiveError> {
        let (directory, _) = names::split(&entry.path);
        while let Some(complete) = self.open.pop_if(|open| !contains(&open.path, &entry.path)) {
            self.leave(&complete)?;
        }
        if self.open.last().map_or(&[][..], |open| &open.path) != directory {
            return Err(ArchiveError::NoDirectory { name: shown(&entry.path) });
        }
        if let Some(target) = entry.attributes.marks.get(&Mark::Redirect) {
            if self.options.marks != Format::Trusted {
                let what = "is a renamed directory, which an ordinary user's overlay cannot follow";
                return Err(ArchiveError::Unsupported { name: shown(&entry.path), what });
            }
            let path = |bytes: &[u8]| PathBuf::from(OsStr::from_bytes(bytes));
            self.done.redirects.push(Redirect { path: path(&entry.path), target: path(target) });
        }
        Ok(())
    }

    /// An empty file, to be filled and then [settled](Self::settle).
    pub(crate) fn file(&mut self, entry: &Entry) -> Result<Filling, ArchiveError> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let full = self.into.full_path(&entry.path);
        let (directory, name) = self.into.place(&entry.path)?;
        let descriptor = rustix::fs::openat(directory, name, flags, Mode::from_raw_mode(0o600)).map_err(on("create", &full))?;
        Ok(Filling::new(File::from(descriptor), full))
    }

    /// Anything that has no content.
    pub(crate) fn make(&mut self, entry: Entry) -> Result<(), ArchiveError> {
        let full = self.into.full_path(&entry.path);
        if let Kind::HardLink { to } = &entry.kind {
            return self.link(&entry, to);
        }
        let (directory, name) = self.into.place(&entry.path)?;
        let node = |kind, mode| rustix::fs::mknodat(directory, name, kind, Mode::from_raw_mode(mode), 0);
        match &entry.kind {
            Kind::Directory => rustix::fs::mkdirat(directory, name, Mode::from_raw_mode(OWNER_ONLY)),
            Kind::Link { to } => rustix::fs::symlinkat(OsStr::from_bytes(to), directory, name),
            Kind::Pipe => node(FileType::Fifo, 0o600),
            Kind::Whiteout => whiteout::make(directory, name),
            Kind::File { .. } | Kind::HardLink { .. } => Err(Errno::INVAL),
        }
        .map_err(on("create", &full))?;
        if entry.kind == Kind::Directory {
            self.open.push(entry);
            return Ok(());
        }
        let held = hold(directory, name).map_err(on("open", &full))?;
        self.settle(&held, &entry)
    }

    /// Gives what is complete its owner, attributes, mode and time, in the order in which one call does not undo another.
    pub(crate) fn settle(&mut self, descriptor: &impl AsFd, entry: &Entry) -> Result<(), ArchiveError> {
        self.settle_with_mode(descriptor, entry, entry.about.mode)
    }

    /// Leaves all directories.
    pub(crate) fn finish(mut self) -> Result<Unpacked, ArchiveError> {
        while let Some(complete) = self.open.pop() {
            self.leave(&complete)?;
        }
        // What lies deeper was left earlier.
        for (path, mode) in std::mem::take(&mut self.closed) {
            let full = self.into.full_path(&path);
            let descriptor = self.into.resolve(&path, OFlags::PATH | OFlags::DIRECTORY).map_err(on("open", &full))?;
            set_mode(&descriptor, mode).map_err(on("change the mode of", &full))?;
        }
        Ok(self.done)
    }

    fn leave(&mut self, directory: &Entry) -> Result<(), ArchiveError> {
        let descriptor = self.into.directory(&directory.path)?.try_clone();
        let descriptor = descriptor.map_err(on("hold", &self.into.full_path(&directory.path)))?;
        let mode = directory.about.mode;
        if mode & OWNER_MAY_ENTER == 0 {
            if self.closed.len() == MOST_CLOSED {
                let what = "directories that their owner may not enter";
                return Err(ArchiveError::Limit { what, limit: MOST_CLOSED as u64 });
            }
            self.closed.push((directory.path.clone(), mode));
        }
        self.settle_with_mode(&descriptor, directory, mode | OWNER_MAY_ENTER)
    }

    /// Another name for a file of the same layer that came earlier.
    fn link(&mut self, entry: &Entry, to: &[u8]) -> Result<(), ArchiveError> {
        let refuse = |why| ArchiveError::HardLink { name: shown(&entry.path), target: shown(to), why };
        if names::layer(to) != names::layer(&entry.path) {
            return Err(refuse("lies in another layer"));
        }
        let file = match self.into.resolve(to, OFlags::PATH) {
            Ok(file) => file,
            Err(Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG) => return Err(refuse("has not come before it")),
            Err(Errno::LOOP) => return Err(refuse("is no file")),
            Err(errno) => return Err(on("open", &self.into.full_path(to))(errno)),
        };
        let full = self.into.full_path(&entry.path);
        let seen = rustix::fs::fstat(&file).map_err(on("look at", &full))?;
        if FileType::from_raw_mode(seen.st_mode) != FileType::RegularFile {
            return Err(refuse("is no file"));
        }
        let (directory, name) = self.into.place(&entry.path)?;
        // The link in /proc leads to exactly what is held.
        rustix::fs::linkat(CWD, by_descriptor(&file), directory, name, AtFlags::SYMLINK_FOLLOW).map_err(on("create", &full))
    }

    fn settle_with_mode(&mut self, descriptor: &impl AsFd, entry: &Entry, mode: u32) -> Result<(), ArchiveError> {
        let full = self.into.full_path(&entry.path);
        let about = &entry.about;
        if self.options.keep_owners {
            let (uid, gid) = (Uid::from_raw(about.uid), Gid::from_raw(about.gid));
            let changed = rustix::fs::chownat(descriptor, "", Some(uid), Some(gid), AtFlags::EMPTY_PATH);
            changed.map_err(on("change the owner of", &full))?;
        }
        let attributes = self.attributes_of(entry);
        attributes::set(descriptor, &attributes, self.options.marks).map_err(on("set the attributes of", &full))?;
        let has_strangers = attributes::has_strangers(&attributes);
        if has_strangers || !attributes::set_lists(descriptor, &attributes).map_err(on("set the access control list of", &full))? {
            return Err(ArchiveError::Strangers { name: shown(&entry.path) });
        }
        if !matches!(entry.kind, Kind::Link { .. }) {
            set_mode(descriptor, mode).map_err(on("change the mode of", &full))?;
        }
        let time = Timespec { tv_sec: about.mtime.seconds, tv_nsec: about.mtime.nanoseconds.into() };
        let untouched = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
        let times = Timestamps { last_access: untouched, last_modification: time };
        rustix::fs::utimensat(descriptor, "", &times, AtFlags::EMPTY_PATH).map_err(on("set the time of", &full))
    }

    /// Capabilities go the way of owners: only root can give them.
    fn attributes_of(&mut self, entry: &Entry) -> Attributes {
        let mut attributes = entry.attributes.clone();
        if !self.options.keep_owners && attributes.plain.remove(CAPABILITY).is_some() {
            self.done.capabilities_left_out += 1;
        }
        attributes
    }
}

fn contains(directory: &[u8], path: &[u8]) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.starts_with(b"/"))
}

fn hold(directory: &OwnedFd, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat(directory, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

/// Of what a descriptor holds, `O_PATH` or not.
fn set_mode(descriptor: &impl AsFd, mode: u32) -> rustix::io::Result<()> {
    let mode = Mode::from_raw_mode(mode);
    match rustix::fs::fchmod(descriptor, mode) {
        Err(Errno::BADF) => rustix::fs::chmod(by_descriptor(descriptor), mode),
        other => other,
    }
}
