//! The keeper's program where it can be executed: a file beside the sandboxes, written once and used by all of them. Where that
//! cannot be, it lies in memory.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::Errno;
use whatif_keeper_program::{BYTES, VERSION};
use whatif_sys::random;

const NAME: &str = "whatif-keeper";
/// For its owner to execute, and for nobody to change.
const MODE: u32 = 0o500;
/// With less free space than this the program is kept in memory.
const SMALL_DISK: u64 = 16 * BYTES.len() as u64;

/// Where it is in the directory for programs, if it is there.
pub(super) fn path(programs: &Path) -> PathBuf {
    programs.join(format!("{NAME}-{VERSION}"))
}

/// Puts it there. Whoever finds it by its name finds all of it: also after a power cut. Refuses on a nearly full disk, where the
/// user's own work needs the space more.
pub(super) fn install(programs: &Path) -> io::Result<()> {
    let room = rustix::fs::statvfs(programs)?;
    if room.f_bavail.saturating_mul(room.f_frsize) < SMALL_DISK {
        return Err(io::ErrorKind::StorageFull.into());
    }
    let unfinished = programs.join(format!("{NAME}.{}", random::word::<8>()?));
    let written = write(&unfinished).and_then(|()| fs::rename(&unfinished, path(programs)));
    if written.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    written
}

fn write(path: &Path) -> io::Result<()> {
    let mut file = File::options().write(true).create_new(true).mode(MODE).open(path)?;
    file.write_all(BYTES)?;
    file.sync_all()
}

/// A copy in memory, which nobody can write to.
pub(super) fn in_memory() -> io::Result<OwnedFd> {
    let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
    // Where memory is not executable unless that is asked for. Older kernels do not know the question.
    let made = match memfd_create(NAME, flags | MemfdFlags::EXEC) {
        Err(Errno::INVAL) => memfd_create(NAME, flags),
        made => made,
    };
    let mut file = File::from(made?);
    file.write_all(BYTES)?;
    let forever = SealFlags::SEAL | SealFlags::SHRINK | SealFlags::GROW | SealFlags::WRITE;
    fcntl_add_seals(&file, forever)?;
    Ok(file.into())
}

/// Whether a process executes another one than this.
pub(super) fn is_another(executable: &Path, programs: &Path) -> io::Result<bool> {
    let (running, ours) = (fs::metadata(executable)?, fs::metadata(path(programs))?);
    Ok((running.dev(), running.ino()) != (ours.dev(), ours.ino()))
}
