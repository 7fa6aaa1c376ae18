//! Changes that are over at once.

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RenameFlags, mkdirat, openat, renameat, renameat_with, unlinkat};
use rustix::io::Errno;

use super::delete::Delete;
use super::place::{Place, Trouble, open_path, require_version};

/// Deletes what can be deleted at once; the rest is the job that is returned.
pub(super) fn delete(path: &Path, recursive: bool, if_version: Option<&str>) -> Result<Option<Delete>, Trouble> {
    let place = Place::of(path)?;
    let stat = place.stat()?.ok_or(Errno::NOENT)?;
    require_version(if_version, &stat)?;
    if !FileType::from_raw_mode(stat.st_mode).is_dir() {
        unlinkat(&place.parent, &place.name, AtFlags::empty())?;
        return Ok(None);
    }
    match unlinkat(&place.parent, &place.name, AtFlags::REMOVEDIR) {
        Ok(()) => Ok(None),
        Err(Errno::NOTEMPTY | Errno::EXIST) if recursive => Delete::begin(place).map(Some),
        Err(Errno::EXIST) => Err(Errno::NOTEMPTY.into()),
        Err(errno) => Err(errno.into()),
    }
}

pub(super) fn rename(from: &Path, to: &Path, replace: bool) -> Result<(), Trouble> {
    let (from, to) = (Place::of(from)?, Place::of(to)?);
    if replace {
        renameat(&from.parent, &from.name, &to.parent, &to.name)?;
    } else {
        renameat_with(&from.parent, &from.name, &to.parent, &to.name, RenameFlags::NOREPLACE)?;
    }
    Ok(())
}

pub(super) fn make_directories(path: &Path, mode: u32) -> Result<(), Trouble> {
    let mut missing = Vec::new();
    let mut above = path;
    // What is there may be a link to a directory.
    let mut held = loop {
        match open_path(above, OFlags::DIRECTORY) {
            Ok(held) => break held,
            Err(error) if error.raw_os_error() == Some(Errno::NOENT.raw_os_error()) => {}
            Err(error) => return Err(error.into()),
        }
        let (Some(parent), Some(name)) = (above.parent(), above.file_name()) else { return Err(Errno::INVAL.into()) };
        missing.push(CString::new(name.as_bytes()).map_err(|_| Errno::INVAL)?);
        above = parent;
    };
    while let Some(name) = missing.pop() {
        match mkdirat(&held, &name, Mode::from_raw_mode(mode & 0o777)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(errno) => return Err(errno.into()),
        }
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        held = openat(&held, &name, flags, Mode::empty())?;
    }
    Ok(())
}
