//! File systems with project quotas, each on a loop device, for the state directory of a world.

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::mount::{MountPropagationFlags, mount_change};
use rustix::thread::UnshareFlags;

use crate::{World, skip};

/// A kernel that cannot mount one has no project quotas. That of the virtual machine can: see `xtask/src/machine.rs`.
const KINDS: [(&str, &[&str]); 2] = [("ext4", &["-q", "-O", "quota,project"]), ("xfs", &["-q"])];

/// Unmounted when dropped.
struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("--lazy").arg(&self.0).status();
    }
}

/// Runs a test with the state directory on each kind of file system that this kernel has quotas for.
pub fn on_each(world: &World, test: fn(&World)) {
    if !rustix::process::geteuid().is_root() {
        return skip("a file system of their own takes root");
    }
    // What comes and goes there is nothing that sandboxes of other tests should see.
    whatif_sys::namespaces::unshare(UnshareFlags::NEWNS).expect("root may");
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).expect("root may");
    for (kind, options) in KINDS {
        let (image, at) = (world.dir.join(format!("{kind}.img")), world.dir.join(format!("on-{kind}")));
        make(kind, options, &image);
        fs::create_dir(&at).expect("it is ours");
        let mount = Command::new("mount").args(["-o", "loop,prjquota"]).args([&image, &at]).output().expect("mount is installed");
        if !mount.status.success() {
            // Not every kernel has them; Debian's has, on which `cargo xtask machine` runs these tests.
            continue;
        }
        let mounted = Mounted(at.clone());
        let state = at.join("state");
        fs::create_dir(&state).expect("it is ours");
        chown(&state, Some(world.uid()), Some(world.uid())).expect("it is ours to give away");
        let there = world.with_state(state);
        test(&there);
        there.whatif(["rm", "--all", "--yes"]).go().ok();
        there.wait_until_all_is_deleted();
        drop(mounted);
    }
}

fn make(kind: &str, options: &[&str], image: &Path) {
    let file = fs::File::create(image).expect("it is ours");
    file.set_len(400 << 20).expect("a file can have holes");
    let made = Command::new(format!("/usr/sbin/mkfs.{kind}")).args(options).arg(image).output().expect("it is installed");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

impl World {
    /// What is removed is deleted in the background.
    fn wait_until_all_is_deleted(&self) {
        let transient = self.state.join("transient");
        crate::eventually("everything is deleted", || fs::read_dir(&transient).is_ok_and(|mut entries| entries.next().is_none()));
    }
}
