//! Copies trees into a head where the kernel cannot overlay them: shared blocks where the file system can, bytes where not.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Gid, Timespec, Timestamps, Uid, XattrFlags};
use rustix::io::Errno;

use crate::{PathError, on};

/// How far a copy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// The whole tree.
    Tree,
    /// The files of this directory; its subdirectories as empty directories.
    Level,
}

/// What becomes of the things that only a sandbox's own layers have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fidelity {
    /// Sockets, pipes and devices lead to things outside; a copy has no use for them.
    Content,
    /// Whiteouts are devices, and hard links of one layer are one file.
    Layer,
}

/// Copies `from` into the existing, empty directory `to`, leaving out `excluded` paths and other file systems.
pub fn into_directory(from: &Path, to: &Path, depth: Depth, excluded: &[PathBuf]) -> Result<(), PathError> {
    copy_tree(from, to, depth, excluded, Fidelity::Content)
}

/// Copies one tree of a layer into the existing, empty directory `to`, marks and all.
pub fn layer(from: &Path, to: &Path) -> Result<(), PathError> {
    copy_tree(from, to, Depth::Tree, &[], Fidelity::Layer)
}

fn copy_tree(from: &Path, to: &Path, depth: Depth, excluded: &[PathBuf], fidelity: Fidelity) -> Result<(), PathError> {
    let mut links: HashMap<u64, PathBuf> = HashMap::new();
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
            } else if fidelity == Fidelity::Layer && metadata.nlink() > 1 {
                match links.get(&metadata.ino()) {
                    Some(first) => fs::hard_link(first, &copy).map_err(on("link", &copy))?,
                    None => {
                        copy_one(&path, &copy, &metadata, fidelity)?;
                        links.insert(metadata.ino(), copy);
                    }
                }
            } else {
                copy_one(&path, &copy, &metadata, fidelity)?;
            }
        }
    }
    // Deepest first: giving a directory its mode and times must come after its content.
    for (path, copy, metadata) in made.iter().rev() {
        copy_attributes(path, copy, metadata)?;
    }
    copy_attributes(from, to, &fs::symlink_metadata(from).map_err(on("examine", from))?)
}

/// Copies one entry, a directory without what is in it, and without what overlayfs writes down about a layer.
pub fn alone(from: &Path, to: &Path) -> Result<(), PathError> {
    let metadata = fs::symlink_metadata(from).map_err(on("examine", from))?;
    if metadata.is_dir() {
        fs::DirBuilder::new().mode(0o700).create(to).map_err(on("create", to))?;
        return copy_looks(from, to, &metadata);
    }
    copy_one(from, to, &metadata, Fidelity::Layer)
}

/// Mode, owner (where allowed), extended attributes and times.
pub fn copy_attributes(from: &Path, to: &Path, metadata: &Metadata) -> Result<(), PathError> {
    copy_attributes_but(from, to, metadata, |_| false)
}

/// The same without what overlayfs writes down about a layer: for a directory that takes the place of another one.
pub fn copy_looks(from: &Path, to: &Path, metadata: &Metadata) -> Result<(), PathError> {
    copy_attributes_but(from, to, metadata, |name| {
        ["trusted.overlay.", "user.overlay.", "user.fuseoverlayfs."]
            .iter()
            .any(|p| name.as_encoded_bytes().starts_with(p.as_bytes()))
    })
}

fn copy_attributes_but(from: &Path, to: &Path, metadata: &Metadata, left_out: fn(&OsString) -> bool) -> Result<(), PathError> {
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
        copy_xattrs(from, to, left_out)?;
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

fn copy_one(from: &Path, to: &Path, metadata: &Metadata, fidelity: Fidelity) -> Result<(), PathError> {
    if metadata.is_symlink() {
        let target = fs::read_link(from).map_err(on("read", from))?;
        std::os::unix::fs::symlink(target, to).map_err(on("create", to))?;
    } else if metadata.is_file() {
        copy_content(from, to).map_err(on("copy", from))?;
    } else if fidelity == Fidelity::Layer {
        let kind = FileType::from_raw_mode(metadata.mode());
        match rustix::fs::mknodat(CWD, to, kind, rustix::fs::Mode::empty(), metadata.rdev()) {
            // A socket without its listener is of no use to anybody.
            Err(_) if kind.is_socket() => return Ok(()),
            other => other.map_err(on("create", to))?,
        }
    } else {
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

fn copy_xattrs(from: &Path, to: &Path, left_out: fn(&OsString) -> bool) -> Result<(), Errno> {
    for name in xattr_names(from)?.into_iter().filter(|n| !left_out(n)) {
        let mut value = vec![0_u8; 65_536];
        let length = match rustix::fs::lgetxattr(from, &name, &mut value[..]) {
            // Taken away since it was listed.
            Err(Errno::NODATA) => continue,
            other => other?,
        };
        match rustix::fs::lsetxattr(to, &name, &value[..length], XattrFlags::empty()) {
            // What the target file system or our rights do not allow is left out, as with `cp`.
            Ok(()) | Err(Errno::NOTSUP | Errno::PERM | Errno::ACCESS) => {}
            Err(errno) => return Err(errno),
        }
    }
    Ok(())
}

fn xattr_names(path: &Path) -> Result<Vec<OsString>, Errno> {
    use std::os::unix::ffi::OsStringExt;
    let mut buffer = vec![0_u8; 65_536];
    let length = match rustix::fs::llistxattr(path, &mut buffer[..]) {
        Err(Errno::NOTSUP) => 0,
        other => other?,
    };
    let names = buffer[..length].split(|b| *b == 0).filter(|n| !n.is_empty());
    Ok(names.map(|n| OsString::from_vec(n.to_vec())).collect())
}
