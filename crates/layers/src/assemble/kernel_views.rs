//! `/proc` and `/sys`: fresh ones for the new namespaces, with everything that reaches the host masked or read-only.

use std::os::fd::OwnedFd;
use std::path::Path;

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
/// What is for root only in directories that are for all: what the keeper has open, for one.
const FOR_ROOT_ONLY: [&str; 4] = ["1/fd", "1/fdinfo", "1/task", "tty/driver"];
const HARMLESS: MountAttrFlags =
    MountAttrFlags::MOUNT_ATTR_NOSUID.union(MountAttrFlags::MOUNT_ATTR_NODEV).union(MountAttrFlags::MOUNT_ATTR_NOEXEC);

pub(super) fn mount_proc(root: &OwnedFd, identity: Identity) -> Result<(), AssembleError> {
    // In a user namespace the kernel gives a new /proc only to who already sees a whole one.
    let proc = detached("proc", "", HARMLESS).map_err(step("make a /proc for the new process namespace"))?;
    let place = target(root, Path::new("proc")).map_err(step("open /proc"))?;
    attach_on(&proc, &place).map_err(step("mount /proc"))?;
    if identity == Identity::Same {
        close_to_root(&proc)?;
    } else {
        PROC_READ_ONLY.iter().try_for_each(|name| show_read_only(&proc, name))?;
    }
    mask(&proc, &PROC_MASKED, "/proc")
}

/// Where root inside is root outside, it owns what is in `/proc`: it could write all of that, how likely the keeper is to be killed
/// for one, and read what is for root only. Nothing stays to be written but what belongs to the sandbox's processes.
fn close_to_root(proc: &OwnedFd) -> Result<(), AssembleError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(proc, ".", flags, Mode::empty()).map_err(step("open /proc to list it"))?;
    let mut for_root_only = Vec::new();
    for entry in Dir::new(directory).map_err(step("list /proc"))? {
        let entry = entry.map_err(step("list /proc"))?;
        let Ok(name) = entry.file_name().to_str() else { continue };
        let is_other_process = name != "1" && name.parse::<u32>().is_ok();
        if name.starts_with('.') || is_other_process || entry.file_type().is_symlink() {
            continue;
        }
        let stat = statat(proc, name, AtFlags::SYMLINK_NOFOLLOW).map_err(step(format!("examine /proc/{name}")))?;
        if Mode::from_raw_mode(stat.st_mode).intersects(Mode::ROTH) {
            show_read_only(proc, name)?;
        } else {
            for_root_only.push(name.to_owned());
        }
    }
    let for_root_only: Vec<&str> = for_root_only.iter().map(String::as_str).collect();
    mask(proc, &for_root_only, "/proc")?;
    mask(proc, &FOR_ROOT_ONLY, "/proc")
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

/// A fresh `/sys` shows only the new network; with the host's network there is only the host's `/sys`, read-only.
pub(super) fn mount_sys(root: &OwnedFd, own_network: bool) -> Result<(), AssembleError> {
    let sys = if own_network {
        detached("sysfs", "", HARMLESS | MountAttrFlags::MOUNT_ATTR_RDONLY).map_err(step("make a /sys for the new network"))?
    } else {
        let flags = OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_RECURSIVE;
        let host = open_tree(CWD, "/sys", flags).map_err(step("clone /sys"))?;
        make_read_only(&host, Reach::Recursive).map_err(step("make /sys read-only"))?;
        host
    };
    let place = target(root, Path::new("sys")).map_err(step("open /sys"))?;
    attach_on(&sys, &place).map_err(step("mount /sys"))?;
    mask(&sys, &SYS_MASKED, "/sys")
}

/// Covers what exists of `names` with an empty directory or file that cannot be written.
fn mask(tree: &OwnedFd, names: &[&str], shown: &str) -> Result<(), AssembleError> {
    for name in names {
        let place = match target(tree, Path::new(name)) {
            Ok(place) => place,
            Err(Errno::NOENT | Errno::LOOP) => continue,
            Err(errno) => return Err(step(format!("open {shown}/{name}"))(errno)),
        };
        let stat = rustix::fs::fstat(&place).map_err(step(format!("examine {shown}/{name}")))?;
        let is_directory = FileType::from_raw_mode(stat.st_mode).is_dir();
        let cover = cover(is_directory).map_err(step(format!("make a mask for {shown}/{name}")))?;
        attach_on(&cover, &place).map_err(step(format!("mask {shown}/{name}")))?;
    }
    Ok(())
}
