//! A `/dev` with the harmless devices only, its own terminals and shared memory.

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, Gid, Mode, OFlags, Uid, mknodat};
use rustix::io::Errno;
use rustix::mount::MountAttrFlags;
use whatif_sys::mount::Reach;
use whatif_types::Identity;
use whatif_types::boot::{Boot, Device};

use super::mounts::{attach, attach_on, clone_at, detached, detached_tmpfs, make_directories, target};
use super::{AssembleError, step};

/// Name, major and minor: checked, so that a device is never mistaken for one a hostile system put under its name.
const DEVICES: [(&str, u32, u32); 6] =
    [("null", 1, 3), ("zero", 1, 5), ("full", 1, 7), ("random", 1, 8), ("urandom", 1, 9), ("tty", 5, 0)];
const LINKS: [(&str, &str); 5] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
    ("ptmx", "pts/ptmx"),
];
const TTY_GROUP: u32 = 5;
/// All sandboxes share what the machine has (kernel.pty.max, less a reserve for its own terminals), so one must not take it all.
const MOST_TERMINALS: u32 = 256;

pub(super) fn mount(boot: &Boot, root: &OwnedFd) -> Result<(), AssembleError> {
    let owner = format!("uid={},gid={}", boot.identity.outer_uid(), boot.identity.outer_gid());
    let memory = detached_tmpfs(&format!("mode=0755,{owner}"), whatif_sys::mount::NO_EXEC as u32).map_err(step("make /dev"))?;
    let place = target(root, Path::new("dev")).map_err(step("open /dev"))?;
    attach_on(&memory, &place).map_err(step("mount /dev"))?;

    for (name, major, minor) in DEVICES {
        device(&memory, (Path::new(name), &Path::new("/dev").join(name)), (major, minor))
            .map_err(step(format!("bind /dev/{name}")))?;
    }
    for granted in &boot.devices {
        grant(&memory, granted, boot.identity).map_err(step(format!("bind {}", granted.path.display())))?;
    }
    for (name, target) in LINKS {
        rustix::fs::symlinkat(target, &memory, name).map_err(step(format!("link /dev/{name}")))?;
    }

    for name in ["pts", "shm"] {
        rustix::fs::mkdirat(&memory, name, Mode::from_raw_mode(0o755)).map_err(step("make directories in /dev"))?;
    }
    // An ordinary user's namespace knows one group only, so terminals cannot belong to `tty` there.
    let group = match boot.identity {
        whatif_types::Identity::Own { gid, .. } => gid,
        other => other.outer_gid() + TTY_GROUP,
    };
    let attributes = MountAttrFlags::MOUNT_ATTR_NOSUID | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let options = format!("mode=620,ptmxmode=666,gid={group},max={MOST_TERMINALS}");
    let terminals = detached("devpts", &options, attributes).map_err(step("make /dev/pts"))?;
    attach(&terminals, &memory, Path::new("pts")).map_err(step("mount /dev/pts"))?;
    let shared = detached_tmpfs(&format!("mode=1777,{owner}"), whatif_sys::mount::NO_DEV as u32).map_err(step("make /dev/shm"))?;
    attach(&shared, &memory, Path::new("shm")).map_err(step("mount /dev/shm"))
}

/// Binds the real device: a user namespace may not make one, and a bind keeps working where `nodev` would not.
fn device(memory: &OwnedFd, (name, real): (&Path, &Path), number: (u32, u32)) -> std::io::Result<()> {
    let real = clone_at(CWD, real, Reach::One)?;
    let found = rustix::fs::fstat(&real)?.st_rdev;
    if (rustix::fs::major(found), rustix::fs::minor(found)) != number {
        return Err(std::io::Error::other(format!("it is not the device {}:{}", number.0, number.1)));
    }
    rustix::fs::openat(memory, name, OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC, Mode::from_raw_mode(0o666))?;
    Ok(attach(&real, memory, name)?)
}

/// A device that the user named. Where root inside is somebody else outside, the real one would be closed to it: it gets a node that
/// is its own, if one can be made here.
fn grant(memory: &OwnedFd, granted: &Device, identity: Identity) -> std::io::Result<()> {
    let name = granted.path.strip_prefix("/dev").map_err(std::io::Error::other)?;
    if let Some(directory) = name.parent() {
        make_directories(memory.as_fd(), directory, 0o755)?;
    }
    if !matches!(identity, Identity::Mapped { .. }) {
        return device(memory, (name, &granted.real), (granted.major, granted.minor));
    }
    let number = rustix::fs::makedev(granted.major, granted.minor);
    let owner = (Uid::from_raw(identity.outer_uid()), Gid::from_raw(identity.outer_gid()));
    match mknodat(memory, name, FileType::CharacterDevice, Mode::RUSR, number) {
        Ok(()) => {
            // A mask is no part of what is granted.
            rustix::fs::chmodat(memory, name, Mode::from_raw_mode(granted.mode | 0o600), AtFlags::empty())?;
            Ok(rustix::fs::chownat(memory, name, Some(owner.0), Some(owner.1), AtFlags::SYMLINK_NOFOLLOW)?)
        }
        Err(Errno::PERM) => device(memory, (name, &granted.real), (granted.major, granted.minor)),
        Err(errno) => Err(errno.into()),
    }
}
