//! Mounts what a sandbox sees, and leaves entering it to others: a container or a virtual machine is given the merged tree from
//! outside.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, Mode};
use rustix::io::Errno;
use whatif_sys::mount::Reach;
use whatif_sys::overlay::Overlay;
use whatif_types::Backend;
use whatif_types::boot::{Boot, Protection};

use super::mounts::{attach, clone_at};
use super::restack::Supplies;
use super::{AssembleError, Mounted, ROOT, assume_ids, link_run, mask_layers, put_together, raise_stage, set_stage, step, verify};

/// The places of a plan as one tree, mounted nowhere yet. What the kernel shows of itself (`/proc`, `/sys`, `/dev`) is not in it:
/// that belongs to whoever runs processes there. It is gone when this is dropped and nobody has attached it.
#[derive(Debug)]
pub struct View {
    tree: OwnedFd,
    pub protection: Protection,
    /// Those that remember what was looked up in reality.
    pub overlays: Vec<Overlay>,
}

impl View {
    /// Owners are those that `user_namespace` has for them outside, so a process in it sees the true ones.
    pub fn mount(boot: &Boot, user_namespace: Option<BorrowedFd<'_>>) -> Result<Self, AssembleError> {
        if boot.plan.backend == Backend::Fuse {
            // Who serves it works by paths of the mount namespace that it was started in.
            return Err(step("mount fuse-overlayfs from outside")(Errno::OPNOTSUPP));
        }
        // A thread can have mounts, a working directory and file ids of its own: the rest of this process notices nothing.
        std::thread::scope(|scope| {
            let started = std::thread::Builder::new().spawn_scoped(scope, || lay_out(boot, user_namespace));
            let lost = |_| step("mount the view")(Errno::CANCELED);
            started.map_err(step("start a thread"))?.join().map_err(lost)?
        })
    }

    /// Mounts it on a directory of the mount namespace that the caller is in.
    pub fn attach(&self, at: &Path) -> Result<(), AssembleError> {
        attach(&self.tree, CWD, at).map_err(step(format!("mount the view on {}", at.display())))
    }
}

fn lay_out(boot: &Boot, user_namespace: Option<BorrowedFd<'_>>) -> Result<View, AssembleError> {
    let Supplies(clones) = Supplies::take(boot, user_namespace)?;
    set_stage(&raise_stage(&boot.directory)?, &clones)?;
    rustix::fs::mkdir(ROOT, Mode::RWXU).map_err(step("make room for the root"))?;
    assume_ids(boot)?;
    mask_layers::make(&boot.masks, boot.identity)?;
    let (root, Mounted { protection, overlays, .. }) = put_together(boot, &clones, Path::new(ROOT), &[])?;
    link_run(boot, &root);
    verify::places(boot, &clones, &protection, Path::new(ROOT))?;
    let tree = clone_at(CWD, Path::new(ROOT), Reach::Recursive).map_err(step("take the view along"))?;
    Ok(View { tree, protection, overlays })
}
