//! Mounts the places of a plan: overlays, read-only views, private and hidden places.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{MountFlags, OpenTreeFlags, open_tree};
use whatif_sys::mount::Reach;
use whatif_types::boot::{Boot, Protection};
use whatif_types::{Backend, Place, PlaceKind};

use super::mounts::{self, Clones, attach, attach_on, detached_tmpfs, make_read_only};
use super::{AssembleError, Cause, MASKS, ROOT, STATE, head_of, relative, step, step_of};

pub(super) fn mount_root(boot: &Boot, clones: &Clones, kind: &PlaceKind) -> Result<(), AssembleError> {
    let real_root = Path::new("/");
    match kind {
        PlaceKind::Writable { tree } => mount_tree(boot, clones, real_root, *tree, Path::new(ROOT)),
        _ => {
            let clone = clones.tree(real_root).map_err(step("find the clone of /"))?;
            make_read_only(clone, Reach::Recursive).map_err(step("make / read-only"))?;
            attach(clone, CWD, Path::new(ROOT)).map_err(step("mount / read-only"))
        }
    }
}

pub(super) fn mount_place(
    boot: &Boot,
    clones: &Clones,
    root: &OwnedFd,
    place: &Place,
    protection: &mut Protection,
) -> Result<(), AssembleError> {
    let path = relative(&place.path);
    let shown = place.path.display();
    let target = match mounts::target(root, path) {
        Ok(target) => target,
        Err(Errno::NOENT) => match place.kind {
            // Not there, so there is nothing to hide.
            PlaceKind::Hidden => return Ok(()),
            _ => {
                mounts::make_directories(root.as_fd(), path, 0o755).map_err(step(format!("make {shown}")))?;
                mounts::target(root, path).map_err(step(format!("open {shown}")))?
            }
        },
        Err(errno) => return Err(step(format!("open {shown} to mount on it"))(errno)),
    };
    match &place.kind {
        PlaceKind::Writable { tree } => {
            let mounted = mount_tree(boot, clones, &place.path, *tree, &Path::new(ROOT).join(path));
            let other_mount = boot.identity.started_by_root() && boot.plan.backend == Backend::Overlay;
            match mounted {
                // Some file systems (FAT, some network ones) cannot be overlaid; they are shown, not written, and `show` says so.
                Err(error) if other_mount => {
                    protection.read_only.push((place.path.clone(), error.source.to_string()));
                    mount_read_only(clones, &place.path, &target)
                }
                other => other,
            }
        }
        PlaceKind::Skeleton { tree } => bind_head(*tree, &target).map_err(step(format!("mount {shown}"))),
        PlaceKind::ReadOnly => mount_read_only(clones, &place.path, &target),
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

fn mount_read_only(clones: &Clones, path: &Path, target: &OwnedFd) -> Result<(), AssembleError> {
    let clone = clones.tree(path).map_err(step(format!("find the clone of {}", path.display())))?;
    // A clone that already serves as a lower layer is used a second time here.
    let copy =
        open_tree(clone, "", OpenTreeFlags::OPEN_TREE_CLONE | OpenTreeFlags::OPEN_TREE_CLOEXEC | OpenTreeFlags::AT_EMPTY_PATH);
    let copy = copy.as_ref().unwrap_or(clone);
    make_read_only(copy, Reach::One).map_err(step(format!("make {} read-only", path.display())))?;
    attach_on(copy, target).map_err(step(format!("mount {} read-only", path.display())))
}

/// Covers a directory with an empty one, or a file with an empty one, neither writable.
fn hide(target: &OwnedFd) -> io::Result<()> {
    let is_directory = FileType::from_raw_mode(rustix::fs::fstat(target)?.st_mode).is_dir();
    let empty = detached_tmpfs("mode=0555,size=4k", 0)?;
    if is_directory {
        make_read_only(&empty, Reach::One)?;
        return Ok(attach_on(&empty, target)?);
    }
    let file = rustix::fs::openat(&empty, "empty", OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC, Mode::from_raw_mode(0o444))?;
    drop(file);
    let file = mounts::clone_at(&empty, Path::new("empty"))?;
    make_read_only(&file, Reach::One)?;
    Ok(attach_on(&file, target)?)
}

fn mount_tree(boot: &Boot, clones: &Clones, path: &Path, tree: usize, target: &Path) -> Result<(), AssembleError> {
    let shown = path.display();
    if boot.plan.backend == Backend::Copy {
        let target = rustix::fs::open(target, mounts::DIRECTORY, Mode::empty()).map_err(step(format!("open {shown}")))?;
        return bind_head(tree, &target).map_err(step(format!("mount the copy of {shown}")));
    }
    let options = overlay_options(boot, clones, path, tree).map_err(step(format!("prepare the layers of {shown}")))?;
    match boot.plan.backend {
        Backend::Fuse => fuse_overlay(&options, target).map_err(step_of(Cause::Layers, format!("mount fuse-overlayfs on {shown}"))),
        _ => {
            let options = kernel_options(boot, &options);
            rustix::mount::mount("overlay", target, "overlay", MountFlags::NODEV, Some(options.as_c_str()))
                .map_err(step_of(Cause::Layers, format!("mount an overlay on {shown}")))
        }
    }
}

/// Attaches the base to the stage under a short name, so that the options stay within a page however deep a stack is.
fn overlay_options(boot: &Boot, clones: &Clones, path: &Path, tree: usize) -> io::Result<String> {
    let base = format!("{tree}.base");
    rustix::fs::mkdir(&base, Mode::RWXU)?;
    attach(clones.tree(path)?, CWD, Path::new(&base))?;
    let mask = if boot.masks.iter().any(|m| m.tree == tree) { format!("{MASKS}/{tree}:") } else { Default::default() };
    Ok(format!("lowerdir={mask}{base},upperdir={},workdir={STATE}/work/{tree}", head_of(tree).display()))
}

fn kernel_options(boot: &Boot, layers: &str) -> std::ffi::CString {
    // `volatile`: a head is not reality; it need not survive a power cut, and syncing it would stall every tear-down.
    let mode = if boot.identity.started_by_root() { "redirect_dir=on" } else { "userxattr" };
    std::ffi::CString::new(format!("{layers},{mode},index=off,metacopy=off,volatile")).unwrap_or_default()
}

/// Runs the user-space implementation; it returns when its mount is up and serves it from the background.
fn fuse_overlay(options: &str, target: &Path) -> io::Result<()> {
    let output = std::process::Command::new("fuse-overlayfs")
        .arg("-o")
        .arg(options)
        .arg(target)
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .output()?;
    if output.status.success() { Ok(()) } else { Err(io::Error::other(String::from_utf8_lossy(&output.stderr).trim().to_owned())) }
}

/// Shows a directory of the head itself: for trees that were copied rather than overlaid.
fn bind_head(tree: usize, target: &OwnedFd) -> io::Result<()> {
    let clone = mounts::clone_at(CWD, &head_of(tree))?;
    Ok(attach_on(&clone, target)?)
}
