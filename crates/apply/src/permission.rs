//! What this process may do, as far as that can be known beforehand.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Access, AtFlags, StatVfsMountFlags};
use rustix::io::Errno;
use whatif_types::remedy::Apart;
use whatif_types::{Remedy, remedy};

use crate::error::Problem;
use crate::look::{Seen, look_at};
use crate::plan::{Attributes, Identity, Kind};

/// Who we are.
#[derive(Debug)]
pub(crate) struct Who {
    pub uid: u32,
    gids: Vec<u32>,
}

impl Who {
    pub(crate) fn now() -> io::Result<Self> {
        let mut gids: Vec<u32> = rustix::process::getgroups()?.iter().map(|g| g.as_raw()).collect();
        gids.push(rustix::process::getegid().as_raw());
        Ok(Self { uid: rustix::process::geteuid().as_raw(), gids })
    }

    pub(crate) fn is_root(&self) -> bool {
        self.uid == 0
    }

    /// Why names in this directory cannot come and go; `None` if they can.
    pub(crate) fn against_directory(&self, directory: &OwnedFd, path: &Path) -> Option<Problem> {
        let problem = |what: &str, remedy: Remedy| Some(Problem::new(path, what, remedy));
        let seen = match look_at(directory) {
            Ok(seen) => seen,
            Err(error) => return problem(&format!("cannot be examined: {error}"), Remedy::default()),
        };
        if is_read_only(directory) {
            return problem("lies on a file system that is mounted read-only", Remedy::default());
        }
        if seen.locked {
            return problem("is locked (immutable or append-only)", unlock(path));
        }
        match rustix::fs::accessat(directory, ".", Access::WRITE_OK | Access::EXEC_OK, AtFlags::EACCESS) {
            Ok(()) => None,
            Err(Errno::ROFS) => problem("lies on a file system that is mounted read-only", Remedy::default()),
            Err(Errno::ACCESS | Errno::PERM) => {
                problem("is a directory you may not write to", remedy!["chmod u+wx ", Apart(path), ", if it is yours"])
            }
            Err(errno) => problem(&format!("cannot be examined: {errno}"), Remedy::default()),
        }
    }

    /// Why an existing entry may not be renamed; `None` if it may.
    pub(crate) fn against_entry(&self, parent: &Seen, entry: &Seen, path: &Path) -> Option<Problem> {
        if entry.mount_root || (entry.mount.is_some() && entry.mount != parent.mount) {
            return Some(Problem::new(path, "is a mount point", "unmount it first"));
        }
        if entry.locked {
            return Some(Problem::new(path, "is locked (immutable or append-only)", unlock(path)));
        }
        let parent = &parent.identity;
        let sticky = parent.mode & 0o1000 != 0;
        if sticky && !self.is_root() && self.uid != parent.uid && self.uid != entry.identity.uid {
            return Some(Problem::new(path, "belongs to another user in a sticky directory", ""));
        }
        None
    }

    /// Why a new entry cannot be given these attributes.
    pub(crate) fn against_attributes(&self, wanted: &Attributes, path: &Path) -> Option<Problem> {
        if self.is_root() {
            return None;
        }
        if wanted.uid != self.uid || !self.gids.contains(&wanted.gid) {
            return Some(Problem::new(
                path,
                format!("needs the owner {}:{}, which you may not set", wanted.uid, wanted.gid),
                "only root can change owners",
            ));
        }
        let capability = wanted.xattrs.iter().any(|(name, _)| name == "security.capability");
        capability.then(|| Problem::new(path, "needs file capabilities, which you may not set", "only root can give them"))
    }

    /// Why an existing entry cannot be given these attributes in place.
    pub(crate) fn against_set(&self, now: &Seen, wanted: &Attributes, path: &Path) -> Option<Problem> {
        if now.locked {
            return Some(Problem::new(path, "is locked (immutable or append-only)", unlock(path)));
        }
        if self.is_root() {
            return None;
        }
        if now.identity.uid != self.uid {
            return Some(Problem::new(path, "does not belong to you", "only its owner or root can change it"));
        }
        let same_group = wanted.gid == now.identity.gid;
        if wanted.uid != self.uid || !(same_group || self.gids.contains(&wanted.gid)) {
            return self.against_attributes(wanted, path);
        }
        None
    }

    /// Why a copy of this entry would not be the same.
    pub(crate) fn against_copy(&self, parent: &OwnedFd, name: &std::ffi::OsStr, now: &Identity, path: &Path) -> Option<Problem> {
        let readable = || rustix::fs::accessat(parent, name, Access::READ_OK, AtFlags::EACCESS | AtFlags::SYMLINK_NOFOLLOW).is_ok();
        let what = match now.kind {
            Kind::Other => "is a pipe, socket or device: no backup can be kept on another file system",
            Kind::File if !readable() => "cannot be read, so no backup can be kept",
            _ if !self.is_root() && (now.uid != self.uid || !self.gids.contains(&now.gid)) => {
                "belongs to another user, so no backup can be kept on another file system"
            }
            _ => return None,
        };
        Some(Problem::new(path, what, ""))
    }
}

fn unlock(path: &Path) -> Remedy {
    remedy!["chattr -i -a ", Apart(path)]
}

/// Only for better words: what is said to be writable by mistake fails with EROFS before anything is swapped.
pub(crate) fn is_read_only(descriptor: impl AsFd) -> bool {
    rustix::fs::fstatvfs(descriptor).is_ok_and(|s| s.f_flag.contains(StatVfsMountFlags::RDONLY))
}
