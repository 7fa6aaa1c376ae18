//! The files of a control group, read and written relative to its held directory.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;

use crate::CgroupError;
use crate::error::on;

/// A group's directory, held open. The path is for messages and for removing.
#[derive(Debug)]
pub(crate) struct Dir {
    fd: OwnedFd,
    pub path: PathBuf,
}

impl Dir {
    pub fn open(path: PathBuf) -> Result<Dir, CgroupError> {
        match rustix::fs::openat(CWD, &path, OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()) {
            Ok(fd) => Ok(Dir { fd, path }),
            Err(error) => Err(on("open", &path)(error)),
        }
    }

    pub fn file(&self, name: &str, flags: OFlags) -> Result<OwnedFd, CgroupError> {
        open(self.fd.as_fd(), name, flags).map_err(on("open", &self.path.join(name)))
    }

    /// A file that not every kernel has, or not with that access. Only for what is measured and shown; no limit depends on it.
    pub fn file_if_there(&self, name: &str, flags: OFlags) -> Option<OwnedFd> {
        open(self.fd.as_fd(), name, flags).ok()
    }

    pub fn read(&self, name: &str) -> Result<String, CgroupError> {
        let file = self.file(name, OFlags::RDONLY)?;
        read_at_start(&file).map_err(on("read", &self.path.join(name)))
    }

    pub fn write(&self, name: &str, value: &str) -> Result<(), CgroupError> {
        let file = self.file(name, OFlags::WRONLY)?;
        self.write_to(&file, name, value)
    }

    /// Whether there is such a file; it is then written.
    pub fn write_if_there(&self, name: &str, value: &str) -> Result<bool, CgroupError> {
        match open(self.fd.as_fd(), name, OFlags::WRONLY) {
            Ok(file) => self.write_to(&file, name, value).map(|()| true),
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(on("open", &self.path.join(name))(error)),
        }
    }

    fn write_to(&self, file: &OwnedFd, name: &str, value: &str) -> Result<(), CgroupError> {
        rustix::io::write(file, value.as_bytes()).map(drop).map_err(on("write", &self.path.join(name)))
    }
}

fn open(dir: BorrowedFd<'_>, name: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat(dir, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

/// The kernel makes such a file's text anew for each read at its start.
pub(crate) fn read_at_start<Fd: AsFd>(file: Fd) -> rustix::io::Result<String> {
    let mut text = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let read = rustix::io::pread(&file, &mut buffer, text.len() as u64)?;
        if read == 0 {
            return Ok(String::from_utf8_lossy(&text).into_owned());
        }
        text.extend_from_slice(&buffer[..read]);
    }
}

pub(crate) fn write_at_start<Fd: AsFd>(file: Fd, value: &str) -> rustix::io::Result<()> {
    rustix::io::pwrite(file, value.as_bytes(), 0).map(drop)
}

/// What a group's file says, or nothing.
pub(crate) fn peek(dir: &Path, name: &str) -> Option<String> {
    std::fs::read_to_string(dir.join(name)).ok()
}
