//! File operations inside the sandbox. Those of the file interface are in the files below; these here are `cp`'s own.
//!
//! They are done by the keeper, whose root is the sandbox's root: a link in a path leads where it leads inside, never outside.

mod answer;
mod change;
mod delete;
mod fill;
mod jobs;
mod list;
mod look;
mod place;
mod watch;

pub(super) use self::answer::Files;

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, fstat, openat, readlinkat, statat};
use whatif_sys::absence;

use crate::protocol::{Access, Entry, EntryKind, Failed, Reason, Reply, Text};

/// Opens a regular file. Pipes and devices are refused: opening or reading one could hang the keeper.
pub(super) fn open(path: &Path, access: Access) -> io::Result<(OwnedFd, Reply)> {
    let safe = OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = match access {
        Access::Read => openat(CWD, path, safe | OFlags::RDONLY, Mode::empty())?,
        Access::Replace { mode } => {
            // Not truncated before it is known to be a regular file.
            openat(CWD, path, safe | OFlags::WRONLY | OFlags::CREATE, Mode::from_raw_mode(mode & 0o777))?
        }
    };
    let stat = fstat(&file)?;
    if !FileType::from_raw_mode(stat.st_mode).is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    if let Access::Replace { .. } = access {
        rustix::fs::ftruncate(&file, 0)?;
    }
    Ok((file, Reply::Opened { size: stat.st_size.unsigned_abs(), mode: stat.st_mode & 0o7777 }))
}

pub(super) fn directory(path: &Path) -> Reply {
    let read = || -> io::Result<Vec<Entry>> {
        let opened = openat(CWD, path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let mut entries = Vec::new();
        for entry in Dir::read_from(&opened)? {
            let entry = entry?;
            let name = entry.file_name();
            if name != c"." && name != c".." {
                entries.push(describe(&opened, name)?);
            }
        }
        entries.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    };
    read().map_or_else(|error| failed(path, &error), Reply::Entries)
}

pub(super) fn examine(path: &Path) -> Reply {
    let name = path.file_name().unwrap_or(path.as_os_str());
    let parent = path.parent().unwrap_or(path);
    let look = || -> io::Result<Entry> {
        let opened = openat(CWD, parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        if path.parent().is_none() {
            return Ok(Entry { name: Text::from(path), kind: EntryKind::Directory, mode: 0o755, size: 0, link: None });
        }
        let name = std::ffi::CString::new(std::os::unix::ffi::OsStrExt::as_bytes(name)).map_err(|_| io::ErrorKind::InvalidInput)?;
        describe(&opened, &name)
    };
    match look() {
        Ok(entry) => Reply::Examined(Some(entry)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Reply::Examined(None),
        Err(error) => failed(path, &error),
    }
}

pub(super) fn make_directory(path: &Path, mode: u32) -> Reply {
    match rustix::fs::mkdirat(CWD, path, Mode::from_raw_mode(mode & 0o777)) {
        Ok(()) => Reply::Done,
        Err(rustix::io::Errno::EXIST) => match absence::is_dir(path) {
            Ok(true) => Reply::Done,
            Ok(false) => failed(path, &rustix::io::Errno::EXIST.into()),
            Err(error) => failed(path, &error),
        },
        Err(errno) => failed(path, &errno.into()),
    }
}

pub(super) fn make_link(path: &Path, target: &Path) -> Reply {
    let make = || rustix::fs::symlinkat(target, CWD, path);
    let made = match make() {
        Err(rustix::io::Errno::EXIST) => match absence::look(path) {
            Ok(Some(there)) if there.is_symlink() => rustix::fs::unlinkat(CWD, path, AtFlags::empty()).and_then(|()| make()),
            Ok(_) => Err(rustix::io::Errno::EXIST),
            Err(error) => return failed(path, &error),
        },
        other => other,
    };
    made.map_or_else(|errno| failed(path, &errno.into()), |()| Reply::Done)
}

fn describe(parent: &OwnedFd, name: &std::ffi::CStr) -> io::Result<Entry> {
    let stat = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => EntryKind::File,
        FileType::Directory => EntryKind::Directory,
        FileType::Symlink => EntryKind::Link,
        _ => EntryKind::Other,
    };
    let link = match kind {
        EntryKind::Link => Some(text_of(&readlinkat(parent, name, Vec::new())?)),
        _ => None,
    };
    Ok(Entry { name: text_of(name), kind, mode: stat.st_mode & 0o7777, size: stat.st_size.unsigned_abs(), link })
}

fn text_of(name: &std::ffi::CStr) -> Text {
    Text::from(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(name.to_bytes()))
}

pub(super) fn failed(path: &Path, error: &io::Error) -> Reply {
    Reply::Failed(Failed {
        reason: Reason::File,
        message: format!("{}: {error}", path.display()),
        errno: error.raw_os_error().unwrap_or(0),
    })
}
