//! What a file or directory has besides the attributes that are compared: `trusted.*` and most of `security.*`, and inode flags
//! (`chattr`).
//!
//! A sandbox has no say about them, but its version of a file takes the place of another inode. So the new one gets those of the
//! one it replaces, and what cannot be given is told. Of a directory that goes they are written down, as no inode is kept that
//! would have them. What the kernel or a security module keeps for each inode is left to them.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;

use rustix::fs::{IFlags, XattrFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::attributes::{Xattrs, by_descriptor, hold, is_managed, list_names};
use crate::content::open_file;

/// Locked files are refused before anything is written.
const FLAGS: [(IFlags, &str); 8] = [
    (IFlags::NODUMP, "d"),
    (IFlags::NOATIME, "A"),
    (IFlags::SYNC, "S"),
    (IFlags::COMPRESSED, "c"),
    (IFlags::NOCOW, "C"),
    (IFlags::JOURNALING, "j"),
    (IFlags::DIRSYNC, "D"),
    (IFlags::TOPDIR, "T"),
];

/// Of one file or directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unmanaged {
    #[serde(with = "crate::plan::named_values")]
    xattrs: Xattrs,
    /// As the kernel numbers them.
    flags: u32,
}

impl Unmanaged {
    pub(crate) fn of(directory: &OwnedFd, name: &OsStr) -> io::Result<Self> {
        let held = hold(directory, name)?;
        let mut xattrs = Xattrs::new();
        for name in list_names(&held)?.into_iter().filter(|name| is_carried(name)) {
            let mut value = vec![0_u8; 65_536];
            match rustix::fs::getxattr(by_descriptor(&held), &name, &mut value[..]) {
                Ok(length) => {
                    value.truncate(length);
                    xattrs.push((name, value));
                }
                // Gone since it was listed, or not for this user to read; then it is told.
                Err(Errno::NODATA) => {}
                Err(Errno::PERM | Errno::ACCESS) => xattrs.push((name, Vec::new())),
                Err(errno) => return Err(errno.into()),
            }
        }
        // Only an open file tells its flags.
        let flags = match open_file(directory, name) {
            Ok(file) => flags_of(&file)?,
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => IFlags::empty(),
            Err(error) => return Err(error),
        };
        Ok(Self { xattrs, flags: flags.bits() })
    }

    /// Most have nothing of the kind.
    pub(crate) fn is_empty(&self) -> bool {
        self.xattrs.is_empty() && self.flags == 0
    }

    /// Gives them to a new, empty file, or to a directory: some flags cannot be given to any other. Returns what it did not take.
    pub(crate) fn give(&self, to: &OwnedFd) -> io::Result<Vec<String>> {
        let mut lost = Vec::new();
        for (name, value) in &self.xattrs {
            match rustix::fs::setxattr(by_descriptor(to), name, value, XattrFlags::empty()) {
                Ok(()) => {}
                Err(Errno::PERM | Errno::ACCESS | Errno::OPNOTSUPP | Errno::INVAL) => {
                    lost.push(format!("attribute {}", name.to_string_lossy()));
                }
                Err(errno) => return Err(errno.into()),
            }
        }
        let flags = IFlags::from_bits_retain(self.flags);
        for (flag, letter) in FLAGS.iter().filter(|(flag, _)| flags.contains(*flag)) {
            let given = rustix::fs::ioctl_getflags(to).and_then(|now| rustix::fs::ioctl_setflags(to, now | *flag));
            match given {
                Ok(()) => {}
                Err(Errno::PERM | Errno::ACCESS | Errno::OPNOTSUPP | Errno::NOTTY | Errno::INVAL) => {
                    lost.push(format!("flag {letter} of chattr"));
                }
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(lost)
    }
}

fn flags_of(file: &impl AsFd) -> io::Result<IFlags> {
    let all = FLAGS.iter().fold(IFlags::empty(), |all, (flag, _)| all | *flag);
    match rustix::fs::ioctl_getflags(file) {
        Ok(flags) => Ok(flags & all),
        // This file system has none.
        Err(Errno::NOTTY | Errno::OPNOTSUPP | Errno::INVAL | Errno::NOSYS) => Ok(IFlags::empty()),
        Err(errno) => Err(errno.into()),
    }
}

fn is_carried(name: &OsStr) -> bool {
    const LEFT: [&str; 6] =
        ["security.selinux", "security.SMACK64", "security.apparmor", "security.ima", "security.evm", "security.sehash"];
    let is = |prefix: &str| name.as_bytes().starts_with(prefix.as_bytes());
    (is("trusted.") || is("security."))
        && !is_managed(name)
        && !whatif_overlay::is_reserved(name.as_bytes())
        && !LEFT.into_iter().any(is)
}
