//! Deletes a directory tree that a sandbox has written, and nothing else.
//!
//! It never follows a symbolic link and never enters a mount, not even one of the same file system (a bind mount): one that
//! should not be there is an error, not something to delete through.

use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2, renameat, statat, unlinkat};
use rustix::io::Errno;

use crate::shift::SPARE_WORK;
use crate::{PathError, on};

/// Deletes `directory` and all beneath it. A directory that is already gone is a success.
pub fn tree(directory: &Path) -> Result<(), PathError> {
    let inner = || -> io::Result<()> {
        let (parent, name, opened) = match open_top(directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other?,
        };
        empty(opened)?;
        unlinkat(&parent, name, AtFlags::REMOVEDIR)?;
        Ok(())
    };
    inner().map_err(on("delete", directory))
}

/// Deletes everything in `directory`, but not itself.
pub fn contents(directory: &Path) -> Result<(), PathError> {
    open_top(directory).and_then(|(_, _, opened)| empty(opened)).map_err(on("empty", directory))
}

/// What an overlay makes where it works is no deeper than this: `TREE/work/incompat/volatile`.
const DEEPEST_OF_WORK: usize = 4;

/// Lets the owner of a sandbox's directory delete it by other means: an overlay leaves directories with mode 0 where it works. What
/// is gone meanwhile needs nothing.
pub(crate) fn open_up(directory: &Path) {
    for work in ["work", SPARE_WORK] {
        if let Ok((_, _, trees)) = open_top(&directory.join(work)) {
            open_up_beneath(&trees, DEEPEST_OF_WORK);
        }
    }
}

fn open_up_beneath(directory: &OwnedFd, levels: usize) {
    for name in subdirectories(directory) {
        if let Ok(child) = open_directory(directory, name.as_c_str())
            && levels > 1
        {
            open_up_beneath(&child, levels - 1);
        }
    }
}

/// What cannot be listed is not ours to open, or gone.
fn subdirectories(directory: &OwnedFd) -> Vec<CString> {
    let entries = Dir::read_from(directory).into_iter().flatten().flatten();
    let named = entries.filter(|entry| entry.file_name() != c"." && entry.file_name() != c"..");
    named
        .filter(|entry| is_directory(directory, entry.file_name(), entry.file_type()).unwrap_or(false))
        .map(|entry| entry.file_name().to_owned())
        .collect()
}

/// The directory and the one it is in. What is mounted above is as it should be (the state directory itself may well be a mount);
/// from here on nothing is.
fn open_top(directory: &Path) -> io::Result<(OwnedFd, &OsStr, OwnedFd)> {
    let (Some(parent), Some(name)) = (directory.parent(), directory.file_name()) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
    let parent = openat(CWD, parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let opened = open_directory(&parent, name)?;
    Ok((parent, name, opened))
}

/// How many directories are held open at once.
const DEEPEST: usize = 128;

/// An explicit stack, so that no depth a sandbox can make overflows ours; what lies too deep is first moved to the top.
fn empty(top: OwnedFd) -> io::Result<()> {
    let mut open: Vec<(OwnedFd, Option<CString>)> = vec![(top, None)];
    let mut moved = 0_u64;
    while let Some((directory, _)) = open.last() {
        match first_subdirectory_after_deleting_the_rest(directory)? {
            Some(name) if open.len() >= DEEPEST => {
                renameat(directory, name.as_c_str(), &open[0].0, format!(".whatif-deep-{moved}"))?;
                moved += 1;
            }
            Some(name) => {
                let child = open_directory(directory, name.as_c_str())?;
                open.push((child, Some(name)));
            }
            None => {
                let Some((_, name)) = open.pop() else { break };
                if let (Some((parent, _)), Some(name)) = (open.last(), name) {
                    unlinkat(parent, name.as_c_str(), AtFlags::REMOVEDIR)?;
                }
            }
        }
    }
    Ok(())
}

fn first_subdirectory_after_deleting_the_rest(directory: &OwnedFd) -> io::Result<Option<CString>> {
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        if is_directory(directory, name, entry.file_type())? {
            match unlinkat(directory, name, AtFlags::REMOVEDIR) {
                Ok(()) => {}
                Err(_) => return Ok(Some(name.to_owned())),
            }
        } else {
            unlinkat(directory, name, AtFlags::empty())?;
        }
    }
    Ok(None)
}

fn is_directory(directory: &OwnedFd, name: &CStr, kind: FileType) -> io::Result<bool> {
    Ok(match kind {
        FileType::Unknown => FileType::from_raw_mode(statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?.st_mode).is_dir(),
        known => known.is_dir(),
    })
}

/// Opens a directory for emptying; one that its owner cannot enter (a sandbox can make such) is opened up first.
fn open_directory<P: rustix::path::Arg + Copy>(at: impl AsFd, name: P) -> io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let open = || openat2(&at, name, flags, Mode::empty(), ResolveFlags::NO_XDEV);
    let opened = match open() {
        // A mount is found out before anybody's permissions are asked.
        Err(Errno::XDEV) => return Err(io::Error::other(format!("{} is a mount point", name.to_string_lossy()))),
        Err(Errno::ACCESS) => {
            rustix::fs::chmodat(&at, name, Mode::RWXU, AtFlags::empty())?;
            open()?
        }
        other => other?,
    };
    // Entries can only be deleted from a directory its owner can write.
    if fstat(&opened)?.st_mode & 0o700 != 0o700 {
        rustix::fs::fchmod(&opened, Mode::RWXU)?;
    }
    Ok(opened)
}
