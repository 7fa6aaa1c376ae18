//! Copies trees into a head where the kernel cannot overlay them: shared blocks where the file system can, bytes where not.

use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Gid, Timespec, Timestamps, Uid, XattrFlags};

use crate::{PathError, on};

/// How far a copy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// The whole tree.
    Tree,
    /// The files of this directory; its subdirectories as empty directories.
    Level,
}

/// Copies `from` into the existing, empty directory `to`, leaving out `excluded` paths and other file systems.
pub fn into_directory(from: &Path, to: &Path, depth: Depth, excluded: &[PathBuf]) -> Result<(), PathError> {
    let device = fs::symlink_metadata(from).map_err(on("examine", from))?.dev();
    let mut pending = vec![(from.to_owned(), to.to_owned())];
    let mut made = Vec::new();
    while let Some((source, target)) = pending.pop() {
        for entry in fs::read_dir(&source).map_err(on("list", &source))? {
            let entry = entry.map_err(on("list", &source))?;
            let (path, copy) = (entry.path(), target.join(entry.file_name()));
            if excluded.contains(&path) {
                continue;
            }
            let metadata = fs::symlink_metadata(&path).map_err(on("examine", &path))?;
            if metadata.is_dir() {
                fs::DirBuilder::new().mode(0o700).create(&copy).map_err(on("create", &copy))?;
                if depth == Depth::Tree && metadata.dev() == device {
                    pending.push((path.clone(), copy.clone()));
                }
                made.push((path, copy, metadata));
            } else {
                copy_one(&path, &copy, &metadata)?;
            }
        }
    }
    // Deepest first: giving a directory its mode and times must come after its content.
    for (path, copy, metadata) in made.iter().rev() {
        copy_attributes(path, copy, metadata)?;
    }
    copy_attributes(from, to, &fs::symlink_metadata(from).map_err(on("examine", from))?)
}

/// Mode, owner (where allowed), extended attributes and times.
pub fn copy_attributes(from: &Path, to: &Path, metadata: &Metadata) -> Result<(), PathError> {
    let inner = || -> io::Result<()> {
        let owner = (Some(Uid::from_raw(metadata.uid())), Some(Gid::from_raw(metadata.gid())));
        match rustix::fs::chownat(CWD, to, owner.0, owner.1, AtFlags::SYMLINK_NOFOLLOW) {
            // A user's copy of somebody else's file belongs to the user, as with `cp`.
            Ok(()) | Err(rustix::io::Errno::PERM) => {}
            Err(errno) => return Err(errno.into()),
        }
        if !metadata.is_symlink() {
            rustix::fs::chmod(to, rustix::fs::Mode::from_raw_mode(metadata.mode() & 0o7777))?;
        }
        copy_xattrs(from, to);
        let time = |seconds, nanoseconds: i64| Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
        let times = Timestamps {
            last_access: time(metadata.atime(), metadata.atime_nsec()),
            last_modification: time(metadata.mtime(), metadata.mtime_nsec()),
        };
        rustix::fs::utimensat(CWD, to, &times, AtFlags::SYMLINK_NOFOLLOW)?;
        Ok(())
    };
    inner().map_err(on("copy the attributes of", from))
}

fn copy_one(from: &Path, to: &Path, metadata: &Metadata) -> Result<(), PathError> {
    if metadata.is_symlink() {
        let target = fs::read_link(from).map_err(on("read", from))?;
        std::os::unix::fs::symlink(target, to).map_err(on("create", to))?;
    } else if metadata.is_file() {
        copy_content(from, to).map_err(on("copy", from))?;
    } else {
        // Sockets, pipes and devices lead to things outside; a copy has no use for them.
        return Ok(());
    }
    copy_attributes(from, to, metadata)
}

fn copy_content(from: &Path, to: &Path) -> io::Result<()> {
    let mut source = File::options().read(true).custom_flags(OFLAGS).open(from)?;
    let mut target = File::options().write(true).create_new(true).mode(0o600).open(to)?;
    if rustix::fs::ioctl_ficlone(&target, &source).is_err() {
        io::copy(&mut source, &mut target)?;
    }
    Ok(())
}

/// Never follow a link and never wait for the other end of a pipe: reality can change while it is copied.
const OFLAGS: i32 = libc_flags();

const fn libc_flags() -> i32 {
    (rustix::fs::OFlags::NOFOLLOW.bits() | rustix::fs::OFlags::NONBLOCK.bits()) as i32
}

fn copy_xattrs(from: &Path, to: &Path) {
    for name in xattr_names(from) {
        let mut value = vec![0_u8; 65_536];
        if let Ok(length) = rustix::fs::lgetxattr(from, &name, &mut value[..]) {
            // What the target file system or our rights do not allow is left out, as with `cp`.
            let _ = rustix::fs::lsetxattr(to, &name, &value[..length], XattrFlags::empty());
        }
    }
}

fn xattr_names(path: &Path) -> Vec<OsString> {
    use std::os::unix::ffi::OsStringExt;
    let mut buffer = vec![0_u8; 65_536];
    let Ok(length) = rustix::fs::llistxattr(path, &mut buffer[..]) else { return Vec::new() };
    buffer[..length].split(|b| *b == 0).filter(|n| !n.is_empty()).map(|n| OsString::from_vec(n.to_vec())).collect()
}
