//! What a sandbox has changed, counted by walking its heads.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags, openat2, statat};
use rustix::io::Errno;
use whatif_sys::absence::OrAbsent;

#[derive(Clone, Copy, Default)]
pub(super) struct Taken {
    pub bytes: u64,
    pub files: u64,
}

/// What the heads take, and whether everything could be seen.
pub(super) fn walk(sandbox: &OwnedFd) -> (Taken, bool) {
    let mut walk = Walk { pending: vec![PathBuf::from("head")], taken: Taken::default(), linked: HashSet::new(), complete: true };
    while let Some(directory) = walk.pending.pop() {
        match walk.directory(sandbox, &directory) {
            // Gone meanwhile.
            Ok(()) | Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
            Err(_) => walk.complete = false,
        }
    }
    (walk.taken, walk.complete)
}

struct Walk {
    /// By path and not by descriptor: whoever nests directories deeply must not exhaust ours.
    pending: Vec<PathBuf>,
    taken: Taken,
    linked: HashSet<u64>,
    complete: bool,
}

impl Walk {
    fn directory(&mut self, sandbox: &OwnedFd, path: &Path) -> rustix::io::Result<()> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let fd = openat2(sandbox, path, flags, Mode::empty(), ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS)?;
        for entry in Dir::read_from(&fd)? {
            let entry = entry?;
            let name = entry.file_name();
            if name == c"." || name == c".." {
                continue;
            }
            let Some(stat) = statat(&fd, name, AtFlags::SYMLINK_NOFOLLOW).or_absent()? else { continue };
            let is_directory = FileType::from_raw_mode(stat.st_mode).is_dir();
            if is_directory || stat.st_nlink < 2 || self.linked.insert(stat.st_ino) {
                self.taken.bytes += stat.st_blocks.unsigned_abs() * 512;
                self.taken.files += 1;
            }
            if is_directory {
                self.pending.push(path.join(OsStr::from_bytes(name.to_bytes())));
            }
        }
        Ok(())
    }
}
