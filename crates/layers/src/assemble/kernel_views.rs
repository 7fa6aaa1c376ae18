//! `/proc` and `/sys`: fresh ones for the new namespaces, with everything that reaches the host masked or read-only.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{CWD, FileType};
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
const HARMLESS: MountAttrFlags =
    MountAttrFlags::MOUNT_ATTR_NOSUID.union(MountAttrFlags::MOUNT_ATTR_NODEV).union(MountAttrFlags::MOUNT_ATTR_NOEXEC);

pub(super) fn mount_proc(root: &OwnedFd, identity: Identity) -> Result<(), AssembleError> {
    // In a user namespace the kernel gives a new /proc only to who already sees a whole one.
    let proc = detached("proc", "", HARMLESS).map_err(step("make a /proc for the new process namespace"))?;
    let place = target(root, Path::new("proc")).map_err(step("open /proc"))?;
    attach_on(&proc, &place).map_err(step("mount /proc"))?;
    // Where root inside is root outside, the keeper's own files would be its to write: how likely it is to be killed, for one.
    let keeper = (identity == Identity::Same).then_some("1");
    for name in PROC_READ_ONLY.into_iter().chain(keeper) {
        match clone_at(&proc, Path::new(name), Reach::One) {
            Err(Errno::NOENT) => continue,
            Err(errno) => return Err(step(format!("clone /proc/{name}"))(errno)),
            Ok(view) => {
                make_read_only(&view, Reach::One).map_err(step(format!("make /proc/{name} read-only")))?;
                attach(&view, &proc, Path::new(name)).map_err(step(format!("mount /proc/{name} read-only")))?;
            }
        }
    }
    mask(&proc, &PROC_MASKED, "/proc")
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
