//! The keeper's program where it can be executed: a file beside the sandboxes, written once and used by all of them. Where that
//! cannot be, it lies in memory.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};
use rustix::io::Errno;
use whatif_keeper_program::{BYTES, VERSION};
use whatif_sys::random;

const NAME: &str = "whatif-keeper";
/// For its owner to execute, and for nobody to change.
const MODE: u32 = 0o500;
/// Nobody is still at writing it after so long.
const IN_USE: Duration = Duration::from_secs(600);
/// With less free space than this the program is kept in memory.
const SMALL_DISK: u64 = 16 * BYTES.len() as u64;

/// Where it is in the directory for programs, if it is there.
fn path(programs: &Path) -> PathBuf {
    programs.join(format!("{NAME}-{VERSION}"))
}

/// The same, put there first if it is not there as it was written. Where it cannot be, it can lie in memory.
pub(super) fn provided(programs: &Path) -> io::Result<PathBuf> {
    let path = path(programs);
    if !is_whole(&path) {
        install(programs)?;
    }
    Ok(path)
}

/// Not what a damaged disk or another program left of it. A file of the same length may differ: the directory is its owner's.
fn is_whole(path: &Path) -> bool {
    let is_ours = |found: &fs::Metadata| {
        found.is_file()
            && found.len() == BYTES.len() as u64
            && found.mode() & 0o7777 == MODE
            && found.uid() == rustix::process::geteuid().as_raw()
    };
    fs::symlink_metadata(path).is_ok_and(|found| is_ours(&found))
}

/// Puts it there. Whoever finds it by its name finds all of it: also after a power cut. Refuses on a nearly full disk, where the
/// user's own work needs the space more.
fn install(programs: &Path) -> io::Result<()> {
    let room = rustix::fs::statvfs(programs)?;
    if room.f_bavail.saturating_mul(room.f_frsize) < SMALL_DISK {
        return Err(io::ErrorKind::StorageFull.into());
    }
    let unfinished = programs.join(format!("{NAME}.{}", random::word::<8>()?));
    let written = write(&unfinished).and_then(|()| fs::rename(&unfinished, path(programs)));
    if written.is_err() {
        let _ = fs::remove_file(&unfinished);
    }
    sweep(programs);
    written
}

/// Removes what earlier versions, and commands that were killed while they wrote it, have left. Whatever runs keeps its program.
fn sweep(programs: &Path) {
    let ours = path(programs);
    for entry in fs::read_dir(programs).into_iter().flatten().flatten() {
        let is_program = entry.file_name().as_bytes().starts_with(NAME.as_bytes());
        let is_old = |found: fs::Metadata| found.modified().is_ok_and(|at| at.elapsed().is_ok_and(|age| age > IN_USE));
        if is_program && entry.path() != ours && entry.metadata().is_ok_and(is_old) {
            let _ = fs::remove_file(entry.path());
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_damaged_program_is_written_again_and_leftovers_go() {
        let programs = std::env::temp_dir().join(format!("whatif-program-{}", std::process::id()));
        fs::create_dir_all(&programs).unwrap();
        let whole = |path: &Path| fs::read(path).unwrap() == BYTES && is_whole(path);
        let program = provided(&programs).unwrap();
        assert!(whole(&program));
        let inode = fs::metadata(&program).unwrap().ino();
        assert_eq!(fs::metadata(provided(&programs).unwrap()).unwrap().ino(), inode, "it is not written twice");

        fs::remove_file(&program).unwrap();
        fs::write(&program, &BYTES[..1000]).unwrap();
        assert!(whole(&provided(&programs).unwrap()), "it was cut off");
        fs::remove_file(&program).unwrap();
        std::os::unix::fs::symlink("/bin/true", &program).unwrap();
        assert!(whole(&provided(&programs).unwrap()), "it was something else");

        let (left, fresh) = (programs.join("whatif-keeper.0123"), programs.join("whatif-keeper.4567"));
        for path in [&left, &fresh] {
            fs::write(path, "half").unwrap();
        }
        File::options().write(true).open(&left).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
        fs::remove_file(&program).unwrap();
        provided(&programs).unwrap();
        let remains = [&left, &fresh].map(|path| fs::symlink_metadata(path).is_ok());
        fs::remove_dir_all(&programs).unwrap();
        assert_eq!(remains, [false, true]);
    }
}
