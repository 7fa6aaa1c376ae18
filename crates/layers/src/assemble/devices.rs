//! A `/dev` with the harmless devices only, its own terminals and shared memory.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::mount::MountAttrFlags;
use whatif_sys::mount::Reach;
use whatif_types::boot::Boot;

use super::mounts::{attach, attach_on, clone_at, detached, detached_tmpfs, target};
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
        device(&memory, name, major, minor).map_err(step(format!("bind /dev/{name}")))?;
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
fn device(memory: &OwnedFd, name: &str, major: u32, minor: u32) -> std::io::Result<()> {
    let real = clone_at(CWD, &Path::new("/dev").join(name), Reach::One)?;
    let found = rustix::fs::fstat(&real)?.st_rdev;
    if (rustix::fs::major(found), rustix::fs::minor(found)) != (major, minor) {
        return Err(std::io::Error::other(format!("it is not the device {major}:{minor}")));
    }
    rustix::fs::openat(memory, name, OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC, Mode::from_raw_mode(0o666))?;
    Ok(attach(&real, memory, Path::new(name))?)
}
