//! Paths that lead through no link.
//!
//! What a sandbox writes lies at a path of ours, but every directory on the way below its head is the sandbox's own to exchange for a
//! link while it is looked at. So nothing of a head, a layer or a copy is opened in any other way than this: the kernel refuses every
//! link on the way in one call (`ELOOP`), also one that came a moment ago. The paths of the state directory and of projects have no
//! links of their own.

use std::fs::{File, Metadata};
use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;

use crate::absence::OrAbsent;

/// While somebody renames directories the kernel may ask to try again.
const TRIES: usize = 1000;

/// Opens what is at a path. If that is a link itself, it can only be held for its path (`PATH | NOFOLLOW`).
pub fn open(path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    for _ in 0..TRIES {
        match openat2(CWD, path, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => std::thread::yield_now(),
            other => return other,
        }
    }
    Err(Errno::AGAIN)
}

/// Holds an entry of any kind, a link included, without opening it.
pub fn hold(path: &Path) -> rustix::io::Result<OwnedFd> {
    open(path, OFlags::PATH | OFlags::NOFOLLOW)
}

/// The same if something is there. What a link on the way leads to is not at this path, whatever it is, and so nothing is.
pub fn find(path: &Path) -> rustix::io::Result<Option<OwnedFd>> {
    match hold(path) {
        Err(Errno::LOOP) => Ok(None),
        held => held.or_absent(),
    }
}

/// What is at a path, a link included.
pub fn look(path: &Path) -> io::Result<Option<Metadata>> {
    find(path)?.map(|held| File::from(held).metadata()).transpose()
}

/// Opens a regular file for reading, and nothing else; never waits for a pipe's other end.
pub fn open_file(path: &Path) -> io::Result<File> {
    let file = File::from(open(path, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY)?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_on_the_way_is_refused_and_one_at_the_end_is_held_as_such() {
        let directory =
            std::env::temp_dir().canonicalize().expect("there is one").join(format!("whatif-direct-{}", std::process::id()));
        let (real, link) = (directory.join("real"), directory.join("link"));
        std::fs::create_dir_all(&real).expect("it is new");
        std::fs::write(real.join("file"), "x").expect("it can be written");
        std::os::unix::fs::symlink(&real, &link).expect("it is new");
        assert!(open_file(&real.join("file")).is_ok());
        assert_eq!(open_file(&link.join("file")).err().and_then(|e| e.raw_os_error()), Some(Errno::LOOP.raw_os_error()));
        assert!(hold(&link).is_ok() && hold(&link.join("file")).is_err());
        assert!(open_file(&real).is_err());
        let is_there = |path: &Path| look(path).expect("it can be looked at").is_some();
        assert!(is_there(&real.join("file")) && is_there(&link), "a link is something");
        std::os::unix::fs::symlink("itself", real.join("itself")).expect("it is new");
        let nothing = [link.join("file"), real.join("other"), real.join("file/in"), real.join("itself/in")];
        assert!(!nothing.iter().any(|path| is_there(path)));
        std::fs::remove_dir_all(&directory).expect("it is ours");
    }
}
