//! Mounts the places of a plan: overlays, read-only views, private and hidden places.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode};
use rustix::io::Errno;
use whatif_sys::mount::Reach;
use whatif_sys::overlay::Overlay;
use whatif_types::boot::Boot;
use whatif_types::{Backend, Place, PlaceKind};

use super::mounts::{self, Clones, attach, attach_on, detached_tmpfs, make_read_only};
use super::{AssembleError, Cause, Mounted, head_of, overlay, relative, step, step_of};

pub(super) fn mount_root(
    boot: &Boot,
    clones: &Clones,
    kind: &PlaceKind,
    at: &Path,
    mounted: &mut Mounted,
) -> Result<(), AssembleError> {
    let real_root = Path::new("/");
    match kind {
        PlaceKind::Writable { tree } => {
            mounted.overlays.extend(mount_tree(boot, clones, real_root, *tree, at)?);
            Ok(())
        }
        _ => {
            let clone = clones.tree(real_root).map_err(step("find the clone of /"))?;
            make_read_only(clone, Reach::Recursive).map_err(step("make / read-only"))?;
            if !clones.root_is_whole && is_shown_apart(boot, real_root, (clone, at), mounted)? {
                return Ok(());
            }
            attach(clone, CWD, at).map_err(step("mount / read-only"))
        }
    }
}

pub(super) fn mount_place(
    boot: &Boot,
    clones: &Clones,
    (root, at): (&OwnedFd, &Path),
    place: &Place,
    mounted: &mut Mounted,
) -> Result<(), AssembleError> {
    let path = relative(&place.path);
    let shown = place.path.display();
    let target = match mounts::target(root, path) {
        Ok(target) => target,
        // Not there, so there is nothing to hide.
        Err(Errno::NOENT | Errno::NOTDIR) if place.kind == PlaceKind::Hidden => return Ok(()),
        Err(Errno::NOENT) => {
            mounts::make_directories(root.as_fd(), path, 0o755).map_err(step(format!("make {shown}")))?;
            mounts::target(root, path).map_err(step(format!("open {shown}")))?
        }
        Err(errno) => return Err(step(format!("open {shown} to mount on it"))(errno)),
    };
    match &place.kind {
        PlaceKind::Writable { tree } => {
            let other_mount = boot.identity.started_by_root() && boot.plan.backend == Backend::Overlay;
            match mount_tree(boot, clones, &place.path, *tree, &at.join(path)) {
                // Some file systems (FAT, some network ones) cannot be overlaid; they are shown, not written, and `show` says so.
                Err(error) if other_mount => {
                    mounted.protection.read_only.push((place.path.clone(), error.source.to_string()));
                    mount_read_only(clones, &place.path, &target)
                }
                overlays => {
                    mounted.overlays.extend(overlays?);
                    Ok(())
                }
            }
        }
        PlaceKind::Skeleton { tree } => bind_head(*tree, &target).map_err(step(format!("mount {shown}"))),
        PlaceKind::ReadOnly => show(boot, clones, &place.path, (&target, &at.join(path)), mounted),
        PlaceKind::Private { mode } => {
            let (uid, gid) = (boot.identity.outer_uid(), boot.identity.outer_gid());
            let options = format!("mode={mode:o},uid={uid},gid={gid}");
            let memory =
                detached_tmpfs(&options, whatif_sys::mount::NO_DEV as u32).map_err(step(format!("make a private {shown}")))?;
            attach_on(&memory, &target).map_err(step(format!("mount a private {shown}")))
        }
        PlaceKind::Hidden => hide(&target).map_err(step(format!("hide {shown}"))),
    }
}

/// Shows something real, with pipes, sockets and locks that are the sandbox's own.
fn show(
    boot: &Boot,
    clones: &Clones,
    path: &Path,
    (target, at): (&OwnedFd, &Path),
    mounted: &mut Mounted,
) -> Result<(), AssembleError> {
    let shown = path.display();
    let clone = clones.tree(path).map_err(step(format!("find the clone of {shown}")))?;
    match FileType::from_raw_mode(rustix::fs::fstat(clone).map_err(step(format!("examine {shown}")))?.st_mode) {
        FileType::Directory if is_shown_apart(boot, path, (clone, at), mounted)? => Ok(()),
        FileType::Directory | FileType::RegularFile => mount_read_only(clones, path, target),
        _ => hide(target).map_err(step(format!("hide {shown}"))),
    }
}

/// Not every file system can be overlaid; `show` says which could not.
fn is_shown_apart(boot: &Boot, path: &Path, (clone, at): (&OwnedFd, &Path), mounted: &mut Mounted) -> Result<bool, AssembleError> {
    match overlay::show(boot, path, clone, at, mounted) {
        Ok(()) => Ok(true),
        Err(error) if mounts::is_refusal(&error) => {
            mounted.protection.shared.push((path.to_owned(), error.to_string()));
            Ok(false)
        }
        Err(error) => Err(step(format!("show {} through an overlay", path.display()))(error)),
    }
}

fn mount_read_only(clones: &Clones, path: &Path, target: &OwnedFd) -> Result<(), AssembleError> {
    let clone = clones.tree(path).map_err(step(format!("find the clone of {}", path.display())))?;
    // A clone that already serves as a lower layer is used a second time here.
    let copy = mounts::clone_of(clone);
    let copy = copy.as_ref().unwrap_or(clone);
    make_read_only(copy, Reach::One).map_err(step(format!("make {} read-only", path.display())))?;
    attach_on(copy, target).map_err(step(format!("mount {} read-only", path.display())))
}

/// Covers a directory with an empty one, or a file with an empty one, neither writable.
fn hide(target: &OwnedFd) -> io::Result<()> {
    let is_directory = FileType::from_raw_mode(rustix::fs::fstat(target)?.st_mode).is_dir();
    Ok(attach_on(&mounts::cover(is_directory)?, target)?)
}

/// The overlays it takes, whoever serves them.
fn mount_tree(boot: &Boot, clones: &Clones, path: &Path, tree: usize, target: &Path) -> Result<Vec<Overlay>, AssembleError> {
    let shown = path.display();
    if boot.plan.backend == Backend::Copy {
        let target = rustix::fs::open(target, mounts::DIRECTORY, Mode::empty()).map_err(step(format!("open {shown}")))?;
        return bind_head(tree, &target).map(|()| Vec::new()).map_err(step(format!("mount the copy of {shown}")));
    }
    let lowers = overlay::lay_out(boot, clones, path, tree).map_err(step(format!("prepare the layers of {shown}")))?;
    match boot.plan.backend {
        Backend::Fuse => {
            lowers.mount_in_user_space(boot, target).map_err(step_of(Cause::Layers, format!("mount fuse-overlayfs on {shown}")))
        }
        _ => lowers.mount(boot, target).map_err(step_of(Cause::Layers, format!("mount an overlay on {shown}"))),
    }
}

/// Shows a directory of the head itself: for trees that were copied rather than overlaid.
fn bind_head(tree: usize, target: &OwnedFd) -> io::Result<()> {
    let clone = mounts::clone_at(CWD, &head_of(tree), Reach::One)?;
    Ok(attach_on(&clone, target)?)
}
