//! Entries that say that what has their name in the layers below is gone.

use std::ffi::OsStr;
use std::os::fd::AsFd;

use rustix::fs::{FileType, Mode, OFlags, Stat, mknodat, openat};
use rustix::io::Errno;
use rustix::path::Arg;

use crate::format::Format;
use crate::mark::Mark;

/// Makes one in the form that all formats read: a character device 0:0, which any user may make.
pub fn make(directory: impl AsFd, path: impl Arg) -> Result<(), Errno> {
    mknodat(directory, path, FileType::CharacterDevice, Mode::empty(), 0)
}

/// Whether something is such a device. A block device of that number is not.
#[must_use]
pub fn is_device(kind: FileType, number: u64) -> bool {
    kind == FileType::CharacterDevice && number == 0
}

impl Format {
    /// Whether an entry of a layer is a whiteout. The kernel reads empty files with a mark as such, too, though it never makes one.
    pub fn is_whiteout(self, directory: &impl AsFd, name: &OsStr, stat: &Stat) -> Result<bool, Errno> {
        let kind = FileType::from_raw_mode(stat.st_mode);
        match self {
            Self::None => Ok(false),
            _ if is_device(kind, stat.st_rdev) => Ok(true),
            Self::Fuse => Ok(false),
            Self::Trusted | Self::User => {
                let is_empty = kind.is_file() && stat.st_size == 0;
                Ok(is_empty && self.has(&hold(directory, name)?, Mark::Whiteout)?)
            }
        }
    }
}

fn hold(directory: &impl AsFd, name: &OsStr) -> Result<std::os::fd::OwnedFd, Errno> {
    openat(directory, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}
