//! Whether a look-up failed because nothing is there.
//!
//! Only ENOENT and ENOTDIR say so. After every other error (EIO, EACCES, EMFILE, ENOMEM …) nothing is known about the path, and
//! a caller that goes on as if it were absent deletes or overlooks what is there. So `Path::exists` and its kind, which cannot
//! tell one from the other, are not used in this project; `clippy.toml` says so to the compiler.

use std::fs::{self, Metadata};
use std::io;
use std::mem::MaybeUninit;
use std::path::Path;

use rustix::fs::{Mode, OFlags, RawDir};
use rustix::io::Errno;

/// An error that may mean that nothing is there.
pub trait MeansAbsent {
    fn means_absent(&self) -> bool;
}

impl MeansAbsent for Errno {
    fn means_absent(&self) -> bool {
        matches!(*self, Self::NOENT | Self::NOTDIR)
    }
}

impl MeansAbsent for io::Error {
    fn means_absent(&self) -> bool {
        matches!(self.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
    }
}

pub trait OrAbsent {
    type Found;
    type Error;

    /// `None` if nothing is there; every other error stays one.
    fn or_absent(self) -> Result<Option<Self::Found>, Self::Error>;
}

impl<T, E: MeansAbsent> OrAbsent for Result<T, E> {
    type Found = T;
    type Error = E;

    fn or_absent(self) -> Result<Option<T>, E> {
        match self {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.means_absent() => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// What is at a path, links not followed.
pub fn look(path: &Path) -> io::Result<Option<Metadata>> {
    fs::symlink_metadata(path).or_absent()
}

/// Whether anything is at a path, a dangling link included.
pub fn exists(path: &Path) -> io::Result<bool> {
    look(path).map(|found| found.is_some())
}

/// Whether a path leads to anything, links followed: a dangling one does not.
pub fn leads_somewhere(path: &Path) -> io::Result<bool> {
    fs::metadata(path).or_absent().map(|found| found.is_some())
}

/// Whether a file is at a path, or a link leads to one.
pub fn is_file(path: &Path) -> io::Result<bool> {
    fs::metadata(path).or_absent().map(|found| found.is_some_and(|f| f.is_file()))
}

/// Whether a directory is at a path, or a link leads to one.
pub fn is_dir(path: &Path) -> io::Result<bool> {
    fs::metadata(path).or_absent().map(|found| found.is_some_and(|f| f.is_dir()))
}

/// Whether nothing is in a directory. One that is not there is an error.
pub fn is_empty_dir(path: &Path) -> io::Result<bool> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::io::retry_on_intr(|| rustix::fs::open(path, flags, Mode::empty()))?;
    let mut space = [MaybeUninit::uninit(); 512];
    let mut entries = RawDir::new(directory, &mut space);
    while let Some(entry) = entries.next() {
        if !matches!(entry?.file_name().to_bytes(), b"." | b"..") {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_directory_is_told_from_one_that_is_not_there() {
        let directory = std::env::temp_dir().join(format!("whatif-empty-{}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        assert!(is_empty_dir(&directory).unwrap());
        fs::write(directory.join("file"), "").unwrap();
        assert!(!is_empty_dir(&directory).unwrap());
        assert!(is_empty_dir(&directory.join("file")).unwrap_err().means_absent(), "it is no directory");
        fs::remove_dir_all(&directory).unwrap();
        assert!(is_empty_dir(&directory).unwrap_err().means_absent());
    }

    #[test]
    fn only_a_missing_name_is_absence() {
        assert!(!exists(Path::new("/never/made")).expect("it is not there"));
        assert!(!exists(Path::new("/proc/self/status/below")).expect("a file has nothing below it"));
        assert!(is_dir(Path::new("/proc/self/fd")).expect("it is there"));
        assert!(!is_dir(Path::new("/proc/self/status")).expect("it is there"));
        assert!(is_file(Path::new("/proc/self/status")).expect("it is there"));
        assert!(leads_somewhere(Path::new("/proc/self/exe")).expect("it is there"));
        assert!(!leads_somewhere(Path::new("/never/made")).expect("it is not there"));
        for errno in [Errno::ACCESS, Errno::IO, Errno::MFILE, Errno::NOMEM, Errno::LOOP] {
            assert!(!errno.means_absent() && !io::Error::from(errno).means_absent());
        }
        // A name too long is the same for each user.
        assert!(exists(Path::new(&"x".repeat(300))).is_err());
    }
}
