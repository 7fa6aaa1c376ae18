//! `/proc` and `/sys`: fresh ones for the new namespaces, with everything that reaches the host masked or read-only.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, statat};
use rustix::io::Errno;
use rustix::mount::{MountAttrFlags, OpenTreeFlags, open_tree};
use whatif_sys::mount::Reach;
use whatif_types::Identity;

use super::mounts::{attach, attach_on, clone_at, cover, detached, make_read_only, target};
use super::{AssembleError, step};

const PROC_READ_ONLY: [&str; 6] = ["sys", "bus", "fs", "irq", "pressure", "sysrq-trigger"];
const PROC_MASKED: [&str; 12] = [
    "acpi",
    "asound",
    "interrupts",
    "kcore",
    "keys",
    "key-users",
    "kmsg",
    "latency_stats",
    "sched_debug",
    "scsi",
    "timer_list",
    "timer_stats",
];
const SYS_MASKED: [&str; 4] = ["firmware", "fs/cgroup", "kernel", "devices/virtual/powercap"];
/// What is for root only in directories that are for all.
const FOR_ROOT_ONLY: [&str; 1] = ["tty/driver"];
/// The same in the directory of the keeper: what it has open, for one.
const OF_KEEPER: [&str; 3] = ["fd", "fdinfo", "task"];
const HARMLESS: MountAttrFlags =
    MountAttrFlags::MOUNT_ATTR_NOSUID.union(MountAttrFlags::MOUNT_ATTR_NODEV).union(MountAttrFlags::MOUNT_ATTR_NOEXEC);

/// The `/proc` that the sandbox will have, not yet mounted anywhere.
#[derive(Debug)]
pub struct NewProc {
    tree: OwnedFd,
    /// For one that is not of the sandbox's own process namespace: what the keeper is called there.
    borrowed_as: Option<PathBuf>,
}

/// Why not.
const COVERED: &str = "the kernel refuses a new one while parts of the one around the sandbox are covered";

/// What of the kernel's views could not be made new, with the reason.
pub(super) type Borrowed = Option<(PathBuf, String)>;

impl NewProc {
    /// Of the sandbox's process namespace, if the kernel gives one. In a user namespace it does so only where a whole `/proc` is to be
    /// seen, and a container covers parts of its own. That one is taken then, as it is: with `/proc/self` right for everybody, other
    /// numbers than inside, and the container's other processes. Those are of another user namespace, so nothing of theirs is open
    /// to those inside but what is open to everybody; and nothing in it can be written.
    pub fn make() -> Result<Self, AssembleError> {
        match detached("proc", "", HARMLESS) {
            Ok(tree) => Ok(Self { tree, borrowed_as: None }),
            Err(Errno::PERM) => Self::borrow(),
            Err(errno) => Err(step("make a /proc for the new process namespace")(errno)),
        }
    }

    fn borrow() -> Result<Self, AssembleError> {
        let keeper = rustix::fs::readlink("/proc/self", Vec::new()).map_err(step("find the keeper in /proc"))?;
        let tree = borrow(Path::new("/proc"))?;
        Ok(Self { tree, borrowed_as: Some(PathBuf::from(OsString::from_vec(keeper.into_bytes()))) })
    }

    /// Sets a kernel variable of the calling process's namespaces. The host's `/proc` could do it too, but there the kernel keeps a
    /// name for every network namespace under the same hash, and a thousand sandboxes make each look-up walk a thousand names.
    pub fn set(&self, variable: &str, value: &str) -> io::Result<()> {
        let path = Path::new("sys").join(variable);
        let file = rustix::fs::openat(&self.tree, &path, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
        rustix::io::write(file, value.as_bytes())?;
        Ok(())
    }
}

pub(super) fn mount_proc(proc: &NewProc, root: &OwnedFd, identity: Identity) -> Result<Borrowed, AssembleError> {
    let NewProc { tree, borrowed_as } = proc;
    let place = target(root, Path::new("proc")).map_err(step("open /proc"))?;
    attach_on(tree, &place).map_err(step("mount /proc"))?;
    if identity.outer_uid() == 0 {
        close_to_root(proc)?;
    } else if borrowed_as.is_none() {
        PROC_READ_ONLY.iter().try_for_each(|name| show_read_only(tree, name))?;
    }
    mask(tree, &PROC_MASKED, "/proc")?;
    Ok(borrowed_as.is_some().then(|| ("/proc".into(), COVERED.to_owned())))
}

/// Where root inside is root outside, it owns what is in `/proc`: it could write all of that, how likely the keeper is to be killed
/// for one, and read what is for root only. Nothing stays to be written but what belongs to the sandbox's processes.
fn close_to_root(NewProc { tree: proc, borrowed_as }: &NewProc) -> Result<(), AssembleError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(proc, ".", flags, Mode::empty()).map_err(step("open /proc to list it"))?;
    let mut for_root_only = Vec::new();
    for entry in Dir::new(directory).map_err(step("list /proc"))? {
        let entry = entry.map_err(step("list /proc"))?;
        let Ok(name) = entry.file_name().to_str() else { continue };
        let is_other_process = (name != "1" || borrowed_as.is_some()) && name.parse::<u32>().is_ok();
        if name.starts_with('.') || is_other_process || entry.file_type().is_symlink() {
            continue;
        }
        let stat = statat(proc, name, AtFlags::SYMLINK_NOFOLLOW).map_err(step(format!("examine /proc/{name}")))?;
        if Mode::from_raw_mode(stat.st_mode).intersects(Mode::ROTH) {
            // What is borrowed is read-only as a whole.
            if borrowed_as.is_none() {
                show_read_only(proc, name)?;
            }
        } else {
            for_root_only.push(name.to_owned());
        }
    }
    let for_root_only: Vec<&str> = for_root_only.iter().map(String::as_str).collect();
    mask(proc, &for_root_only, "/proc")?;
    mask(proc, &FOR_ROOT_ONLY, "/proc")?;
    let keeper = borrowed_as.as_deref().unwrap_or(Path::new("1"));
    let of_keeper = OF_KEEPER.map(|name| keeper.join(name));
    mask(proc, &of_keeper, "/proc")
}

/// A clone of what is there outside, with all that covers parts of it, and nothing of it can be written.
fn borrow(view: &Path) -> Result<OwnedFd, AssembleError> {
    let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
    let clone = open_tree(CWD, view, flags).map_err(step(format!("clone {}", view.display())))?;
    make_read_only(&clone, Reach::Recursive).map_err(step(format!("make {} read-only", view.display())))?;
    Ok(clone)
}

fn show_read_only(proc: &OwnedFd, name: &str) -> Result<(), AssembleError> {
    match clone_at(proc, Path::new(name), Reach::One) {
        Err(Errno::NOENT) => Ok(()),
        Err(errno) => Err(step(format!("clone /proc/{name}"))(errno)),
        Ok(view) => {
            make_read_only(&view, Reach::One).map_err(step(format!("make /proc/{name} read-only")))?;
            attach(&view, proc, Path::new(name)).map_err(step(format!("mount /proc/{name} read-only")))
        }
    }
}

/// A fresh `/sys` shows only the new network; with the host's network there is only the host's `/sys`, read-only. In a container that
/// covers parts of its own there is only that one, as with `/proc`.
pub(super) fn mount_sys(root: &OwnedFd, own_network: bool) -> Result<Borrowed, AssembleError> {
    const SYS: &str = "/sys";
    let mut borrowed = None;
    let sys = if own_network {
        match detached("sysfs", "", HARMLESS | MountAttrFlags::MOUNT_ATTR_RDONLY) {
            Err(Errno::PERM) => {
                borrowed = Some((SYS.into(), COVERED.to_owned()));
                borrow(Path::new(SYS))?
            }
            other => other.map_err(step("make a /sys for the new network"))?,
        }
    } else {
        borrow(Path::new(SYS))?
    };
    let place = target(root, Path::new("sys")).map_err(step("open /sys"))?;
    attach_on(&sys, &place).map_err(step("mount /sys"))?;
    mask(&sys, &SYS_MASKED, SYS)?;
    Ok(borrowed)
}

/// Covers what exists of `names` with an empty directory or file that cannot be written.
fn mask(tree: &OwnedFd, names: &[impl AsRef<Path>], shown: &str) -> Result<(), AssembleError> {
    for name in names {
        let name = name.as_ref();
        let at = || format!("{shown}/{}", name.display());
        let place = match target(tree, name) {
            Ok(place) => place,
            Err(Errno::NOENT | Errno::LOOP) => continue,
            Err(errno) => return Err(step(format!("open {}", at()))(errno)),
        };
        let stat = rustix::fs::fstat(&place).map_err(step(format!("examine {}", at())))?;
        let is_directory = FileType::from_raw_mode(stat.st_mode).is_dir();
        let cover = cover(is_directory).map_err(step(format!("make a mask for {}", at())))?;
        attach_on(&cover, &place).map_err(step(format!("mask {}", at())))?;
    }
    Ok(())
}
