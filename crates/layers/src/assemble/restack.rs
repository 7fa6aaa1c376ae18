//! Puts a running sandbox on another stack of layers, from outside, while nothing but its keeper is alive in it.
//!
//! The keeper has given up every right to mount, so a helper comes in: it takes clones of reality where it is, enters the
//! sandbox's mount namespace by the way that the provider gives it, and puts together a second root beside the first. What lives only in memory (`/tmp`, `/dev`, …) is
//! carried over; then the roots change places for the keeper.
//!
//! There must be no process to take along. Whoever stood in the first root or had anything of it open would go on in a tree that
//! the kernel takes apart: what was mounted over reality in it is gone, and its locks, sockets and watches are nobody's.
//!
//! The layers of the first root are about to be frozen. A descriptor opened on it (by a client that copies a file in, say) could
//! write to them for ever, so it is made read-only first: the kernel refuses that while anybody has a file open for writing, and
//! afterwards nobody can.

use std::os::fd::{BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Mode, StatxAttributes, StatxFlags, statx};
use rustix::io::Errno;
use rustix::mount::{MountPropagationFlags, OpenTreeFlags, UnmountFlags, mount_change, open_tree, unmount};
use rustix::thread::UnshareFlags;
use whatif_sys::mount::{self, Reach};
use whatif_sys::overlay::Overlay;
use whatif_types::boot::{Boot, Protection};
use whatif_types::{Place, PlaceKind};

use super::mounts::{self, Clones, attach_on, target};
use super::{AssembleError, Mounted, ROOT, assume_ids, mask_layers, put_together, raise_stage, relative, set_stage, step, verify};
use crate::shift::{SPARE_HEAD, SPARE_WORK};

/// What comes from reality, taken where reality is.
#[derive(Debug)]
pub struct Supplies(pub(super) Clones);

impl Supplies {
    /// `user_namespace` is the one the sandbox lives in. From here on the calling thread has mounts of its own.
    pub fn take(boot: &Boot, user_namespace: Option<BorrowedFd<'_>>) -> Result<Self, AssembleError> {
        whatif_sys::namespaces::unshare(UnshareFlags::NEWNS).map_err(step("leave the mount namespace"))?;
        mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).map_err(step("make mounts private"))?;
        Clones::open(boot, user_namespace).map(Self)
    }
}

/// The first root, from within the sandbox's mount namespace, with all that is needed for the second.
#[derive(Debug)]
pub struct Restack<'a> {
    boot: &'a Boot,
    clones: Clones,
    first: OwnedFd,
    guarded: Vec<OwnedFd>,
    carried: Vec<(PathBuf, OwnedFd)>,
    is_staged: bool,
}

/// What the kernel shows of itself.
const KERNEL_VIEWS: [&str; 3] = ["/dev", "/proc", "/sys"];
/// Where the stage is set.
const STAGE: &str = "/sys";

impl<'a> Restack<'a> {
    /// By now the calling process is in the sandbox's mount namespace, at the root its keeper has.
    pub fn begin(boot: &'a Boot, Supplies(clones): Supplies) -> Result<Self, AssembleError> {
        let first = rustix::fs::open("/", mounts::DIRECTORY, Mode::empty()).map_err(step("open the sandbox's root"))?;
        Ok(Self { boot, clones, first, guarded: Vec::new(), carried: Vec::new(), is_staged: false })
    }

    /// The mounts whose layers are about to be frozen.
    fn trees(&self) -> Result<Vec<(PathBuf, OwnedFd)>, AssembleError> {
        let is_tree = |p: &&Place| matches!(p.kind, PlaceKind::Writable { .. } | PlaceKind::Skeleton { .. });
        let opened = self.boot.plan.places.iter().filter(is_tree).map(|place| {
            let opened = target(&self.first, relative(&place.path));
            (&place.path, opened)
        });
        let mut trees = Vec::new();
        for (path, opened) in opened {
            match opened {
                // Otherwise a mount that came to reality since: the first root has no such tree.
                Ok(tree) if is_mount(&tree).map_err(step(format!("examine {}", path.display())))? => {
                    trees.push((path.clone(), tree));
                }
                Ok(_) | Err(Errno::NOENT | Errno::NOTDIR) => {}
                Err(errno) => return Err(step(format!("open {}", path.display()))(errno)),
            }
        }
        Ok(trees)
    }

    /// Makes the trees read-only. `Some` names the one that somebody writes to; then nothing has changed.
    pub fn guard(&mut self) -> Result<Option<PathBuf>, AssembleError> {
        for (path, tree) in self.trees()? {
            match mount::add_attributes(&tree, mount::READ_ONLY, Reach::One) {
                Ok(()) => self.guarded.push(tree),
                Err(error) => {
                    self.release();
                    let is_busy = error.raw_os_error() == Some(Errno::BUSY.raw_os_error());
                    return if is_busy { Ok(Some(path)) } else { Err(step(format!("make {} read-only", path.display()))(error)) };
                }
            }
        }
        Ok(None)
    }

    /// Takes the guard back.
    pub fn release(&mut self) {
        for tree in self.guarded.drain(..) {
            let _ = mount::remove_attributes(&tree, mount::READ_ONLY, Reach::One);
        }
    }

    /// Lays out everything that does not depend on the head, where no process of the sandbox can see it.
    pub fn set_stage(&mut self) -> Result<(), AssembleError> {
        self.carry_over()?;
        // Nobody is there to miss what it covers.
        let stage = raise_stage(Path::new(STAGE))?;
        self.is_staged = true;
        set_stage(&stage, &self.clones)?;
        rustix::fs::mkdir(ROOT, Mode::RWXU).map_err(step("make room for the new root"))?;
        mask_layers::make(&self.boot.masks, self.boot.identity)
    }

    /// Puts the second root together, and in the place of the first. It must offer what the sandbox is `known` to have. Returns its
    /// overlays.
    pub fn change(&mut self, known: &Protection) -> Result<Vec<Overlay>, AssembleError> {
        let (root, Mounted { mut protection, overlays, .. }) = self.prepare()?;
        // It was carried over.
        protection.borrowed.clone_from(&known.borrowed);
        let is_there = |(path, _): &&(PathBuf, String)| {
            let place = self.boot.plan.places.iter().find(|place| place.path == *path);
            place.is_none_or(|place| !self.clones.lost(self.boot, place))
        };
        if !protection.read_only.iter().filter(is_there).eq(known.read_only.iter().filter(is_there)) {
            return Err(step("find everything as writable as it was")(Errno::ROFS));
        }
        self.switch(&root, &protection)?;
        Ok(overlays)
    }

    fn prepare(&mut self) -> Result<(OwnedFd, Mounted), AssembleError> {
        assume_ids(self.boot)?;
        let (root, mounted) = put_together(self.boot, &self.clones, Path::new(ROOT), &self.carried)?;
        for path in KERNEL_VIEWS.map(Path::new) {
            let clone = carried(&self.carried, path).ok_or(Errno::NOENT).map_err(step(format!("carry over {}", path.display())))?;
            let place = target(&root, relative(path)).map_err(step(format!("open {}", path.display())))?;
            attach_on(clone, &place).map_err(step(format!("carry over {}", path.display())))?;
        }
        Ok((root, mounted))
    }

    /// Takes clones of what lives in memory only, with everything mounted beneath it.
    fn carry_over(&mut self) -> Result<(), AssembleError> {
        let is_private = |p: &&Place| matches!(p.kind, PlaceKind::Private { .. });
        let private = self.boot.plan.places.iter().filter(is_private).map(|p| p.path.as_path());
        for path in private.chain(KERNEL_VIEWS.map(Path::new)) {
            let source = match target(&self.first, relative(path)) {
                // A private place that is new in the plan is made new.
                Err(Errno::NOENT) => continue,
                other => other.map_err(step(format!("open {}", path.display())))?,
            };
            let flags = OpenTreeFlags::OPEN_TREE_CLONE
                | OpenTreeFlags::OPEN_TREE_CLOEXEC
                | OpenTreeFlags::AT_RECURSIVE
                | OpenTreeFlags::AT_EMPTY_PATH;
            let clone = open_tree(&source, "", flags).map_err(step(format!("clone {}", path.display())))?;
            self.carried.push((path.to_owned(), clone));
        }
        Ok(())
    }

    /// Takes away what was prepared: the sandbox stays on its first root.
    pub fn give_up(mut self) {
        let _ = rustix::process::chdir("/");
        if std::mem::take(&mut self.is_staged) {
            let _ = unmount(STAGE, UnmountFlags::DETACH);
        }
        self.release();
    }

    fn switch(&self, root: &OwnedFd, protection: &Protection) -> Result<(), AssembleError> {
        rustix::process::fchdir(root).map_err(step("enter the new root"))?;
        rustix::process::pivot_root(".", ".").map_err(step("change the root"))?;
        // The way to "." ends at what was mounted there last, which is the old root; the stage lies in it.
        unmount(".", UnmountFlags::DETACH).map_err(step("detach the old root"))?;
        rustix::process::chdir("/").map_err(step("enter the new root"))?;
        verify::plan(self.boot, &self.clones, protection)
    }

    /// Makes the directories that the next one will need. On some disks that takes longer than mounting.
    pub fn lay_up(&self) {
        let state = &self.clones.state;
        for part in [SPARE_HEAD, SPARE_WORK] {
            let _ = rustix::fs::mkdirat(state, part, Mode::RWXU);
            for (tree, _) in self.boot.plan.trees() {
                let _ = rustix::fs::mkdirat(state, Path::new(part).join(tree.to_string()), Mode::RWXU);
            }
        }
    }
}

fn is_mount(directory: &OwnedFd) -> Result<bool, Errno> {
    let found = statx(directory, "", AtFlags::EMPTY_PATH, StatxFlags::empty())?;
    Ok(found.stx_attributes.contains(StatxAttributes::MOUNT_ROOT))
}

/// What was carried over for this path.
pub(super) fn carried<'a>(carried: &'a [(PathBuf, OwnedFd)], path: &Path) -> Option<&'a OwnedFd> {
    carried.iter().find(|(at, _)| at == path).map(|(_, clone)| clone)
}
