//! Directories through which nothing shows.

use std::ffi::OsStr;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{FileType, Mode, OFlags, Stat, openat};
use rustix::io::Errno;

use crate::format::Format;
use crate::mark::Mark;
use crate::{fuse, whiteout};

impl Format {
    /// Whether nothing shows through a directory: one byte, as the kernel reads it.
    pub fn is_opaque(self, directory: &impl AsFd) -> Result<bool, Errno> {
        Ok(self.get(directory, Mark::Opaque)?.is_some_and(|value| value == b"y"))
    }

    /// For fuse-overlayfs with the file that it makes too. That one alone would say nothing: a program can make it.
    pub fn make_opaque(self, directory: &impl AsFd) -> Result<(), Errno> {
        self.set(directory, Mark::Opaque, b"y")?;
        if self == Self::Fuse {
            let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            openat(directory, fuse::OPAQUE_FILES[0], flags, Mode::RWXU)?;
        }
        Ok(())
    }

    /// Whether an entry is there only to say that its directory is opaque, as some are that fuse-overlayfs makes.
    pub fn is_bookkeeping(self, directory: &impl AsFd, name: &OsStr, stat: &Stat) -> Result<bool, Errno> {
        if self != Self::Fuse || !fuse::OPAQUE_FILES.iter().any(|file| file.as_bytes() == name.as_bytes()) {
            return Ok(false);
        }
        let kind = FileType::from_raw_mode(stat.st_mode);
        let is_empty = kind.is_file() && stat.st_size == 0;
        Ok((is_empty || whiteout::is_device(kind, stat.st_rdev)) && self.is_opaque(directory)?)
    }
}
