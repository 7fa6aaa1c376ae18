//! How much a layer or a head takes on the disk.

use std::collections::HashSet;
use std::ffi::{CStr, OsStr};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, ResolveFlags, Stat, openat, openat2, statat};
use rustix::io::{Errno, fcntl_dupfd_cloexec};
use whatif_sys::absence::MeansAbsent;

use crate::{PathError, on};

/// A sandbox can nest directories deeper than a path may be long. After so many bytes of a way the next one begins.
const LONGEST_WAY: usize = 2048;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Measured {
    pub files: u64,
    /// Blocks on the disk; a file with several names counts once.
    pub bytes: u64,
}

/// A directory, and how it is reached.
struct Place {
    from: Rc<OwnedFd>,
    way: PathBuf,
}

/// Measures everything beneath a directory. What vanishes meanwhile counts for nothing, nor does what the sandbox closed.
pub fn tree(directory: &Path) -> Result<Measured, PathError> {
    let mut measured = Measured::default();
    let mut linked = HashSet::new();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let top = if_there(openat(CWD, directory, flags, Mode::empty())).map_err(on("list", directory))?;
    let mut pending: Vec<Place> = top.into_iter().map(|top| Place { from: Rc::new(top), way: ".".into() }).collect();
    while let Some(place) = pending.pop() {
        let path = directory.join(&place.way);
        let failed = |action| on(action, &path);
        let opened = openat2(&place.from, &place.way, flags, Mode::empty(), ResolveFlags::NO_SYMLINKS);
        let Some(opened) = if_there(opened).map_err(failed("list"))? else { continue };
        let mut entries = Dir::new(opened).map_err(failed("list"))?;
        let mut here = None;
        while let Some(entry) = entries.read() {
            let entry = entry.map_err(failed("list"))?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let within = entries.fd().map_err(failed("list"))?;
            let found = if_there(statat(within, name, AtFlags::SYMLINK_NOFOLLOW)).map_err(failed("examine"))?;
            let Some(found) = found else { continue };
            if is_directory(&found) {
                pending.push(place.below(name, within, &mut here).map_err(failed("list"))?);
            } else {
                measured.files += 1;
            }
            if found.st_nlink < 2 || is_directory(&found) || linked.insert(found.st_ino) {
                measured.bytes += found.st_blocks as u64 * 512;
            }
        }
    }
    Ok(measured)
}

impl Place {
    /// A directory in this one, which is open. It is held once for all in it: those may be more than a process can hold.
    fn below(&self, name: &CStr, opened: BorrowedFd<'_>, here: &mut Option<Rc<OwnedFd>>) -> rustix::io::Result<Place> {
        let name = OsStr::from_bytes(name.to_bytes());
        if self.way.as_os_str().len() < LONGEST_WAY {
            return Ok(Place { from: Rc::clone(&self.from), way: self.way.join(name) });
        }
        let from = match here {
            Some(here) => here,
            None => here.insert(Rc::new(fcntl_dupfd_cloexec(opened, 0)?)),
        };
        Ok(Place { from: Rc::clone(from), way: name.into() })
    }
}

fn is_directory(found: &Stat) -> bool {
    FileType::from_raw_mode(found.st_mode).is_dir()
}

fn if_there<T>(looked: rustix::io::Result<T>) -> rustix::io::Result<Option<T>> {
    match looked {
        Ok(found) => Ok(Some(found)),
        // A link has taken its place.
        Err(Errno::ACCESS | Errno::LOOP) => Ok(None),
        Err(error) if error.means_absent() => Ok(None),
        Err(error) => Err(error),
    }
}
