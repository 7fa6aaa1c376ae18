//! Runs fuse-overlayfs, and makes sure that it reads its layers as they were meant.
//!
//! There are files and attributes that it takes for marks although programs inside can make them (`whatif_overlay::fuse`). Mounted
//! over such a file, it would show something else than the sandbox had, so it is not.

use std::ffi::{CString, OsStr};
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, ResolveFlags, open, openat2, statat};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount};
use whatif_overlay::{Format, fuse};
use whatif_sys::file_server;
use whatif_sys::mount::Reach;
use whatif_sys::run_to_end::run_to_end;
use whatif_types::Identity;

use super::mounts::{attach_on, clone_at, make_directories};
use super::{STATE, relative};

/// Mounts on `target` and has the command serve it. A server that is told a descriptor instead of a directory only serves.
pub(super) fn mount_and_serve(mut command: Command, target: &Path, identity: Identity) -> io::Result<()> {
    let device = rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    let (number, uid, gid) = (device.as_raw_fd(), identity.outer_uid(), identity.outer_gid());
    let options = format!("fd={number},rootmode=40000,user_id={uid},group_id={gid},default_permissions,allow_other");
    let options = CString::new(options).map_err(|_| Errno::INVAL)?;
    let flags = MountFlags::NODEV | MountFlags::NOSUID | MountFlags::NOATIME;
    mount("fuse-overlayfs", target, "fuse.fuse-overlayfs", flags, Some(options.as_c_str()))?;
    file_server::confine(&mut command, device.as_fd());
    let output = run_to_end(command.arg(format!("/dev/fd/{number}")))?;
    if output.status.success() {
        return Ok(());
    }
    Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned()))
}

/// What a server writes, relative to the stage.
const WRITTEN: [&str; 2] = ["head", "work"];

/// Makes room in the underlay for what `keep_paths` puts there.
pub(super) fn make_room(underlay: &OwnedFd) -> io::Result<()> {
    let state = std::env::current_dir()?.join(STATE);
    for directory in WRITTEN {
        make_directories(underlay.as_fd(), relative(&state.join(directory)), 0o755)?;
    }
    Ok(())
}

/// Has the paths of the head lead to it from the underlay, too, which will be the server's root.
///
/// fuse-overlayfs opens files by descriptors that it holds, but sets attributes of directories and links by the absolute paths that
/// its layers had when it started. Where they lead nowhere, a directory cannot be given an access control list, and loses the one
/// it has when it is copied or moved inside. Nothing else of the stage is needed there, least of all reality without its masks.
pub(super) fn keep_paths(underlay: &OwnedFd) -> io::Result<()> {
    let state = std::env::current_dir()?.join(STATE);
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    for directory in WRITTEN {
        let kept = state.join(directory);
        let place = openat2(underlay, relative(&kept), OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), resolve)?;
        attach_on(&clone_at(CWD, &Path::new(STATE).join(directory), Reach::One)?, &place)?;
    }
    Ok(())
}

/// Fails where marks would be made of ordinary files.
pub(super) fn check_marks(work: &Path) -> io::Result<()> {
    let work = hold(work)?;
    fuse::try_whiteout(&work).map_err(|errno| no_marks("deletions", errno))?;
    fuse::try_attribute(&work).map_err(|errno| no_marks("replaced directories", errno))
}

fn no_marks(what: &str, errno: Errno) -> io::Error {
    let error = io::Error::from(errno);
    io::Error::other(format!("on this file system fuse-overlayfs would mark {what} by files that programs can make too ({error})"))
}

/// Fails if something in a layer would be taken for a mark that it is not.
pub(super) fn check_layer(root: &Path) -> io::Result<()> {
    let mut pending = vec![PathBuf::new()];
    while let Some(inside) = pending.pop() {
        let directory = root.join(&inside);
        let held = hold(&directory)?;
        if fuse::has_forged_opaque(&held)? {
            return Err(misread(&inside, "has the attribute user.overlay.opaque"));
        }
        for entry in fs::read_dir(&directory)? {
            let entry = entry?;
            let (name, kind) = (entry.file_name(), entry.file_type()?);
            let path = inside.join(&name);
            if fuse::is_whiteout_name(&name) && !is_own(&held, &name)? {
                return Err(misread(&path, "has a name that begins with '.wh.'"));
            }
            if kind.is_dir() {
                pending.push(path);
            }
        }
    }
    Ok(())
}

/// Whether fuse-overlayfs put it there.
fn is_own(directory: &OwnedFd, name: &OsStr) -> rustix::io::Result<bool> {
    Format::Fuse.is_bookkeeping(directory, name, &statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?)
}

fn hold(directory: &Path) -> rustix::io::Result<OwnedFd> {
    open(directory, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

fn misread(path: &Path, why: &str) -> io::Error {
    io::Error::other(format!("'{}' in the sandbox {why}, which fuse-overlayfs would take for a deletion", path.display()))
}
