//! The overlay of one tree: its head over the frozen layers, over what is masked, over reality.

use std::ffi::CString;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode};
use rustix::io::Errno;
use rustix::mount::{MountFlags, mount};
use whatif_sys::overlay::Overlay;
use whatif_types::boot::Boot;

use super::mounts::{Clones, attach};
use super::{LAYERS, Mounted, STATE, fuse, head_of, mask_layers};
use crate::remove;
use crate::state_dir::NOTHING;

/// What lies under one head, by names on the stage: short ones, so that the options fit a page however deep a stack is.
pub(super) struct Lowers {
    tree: usize,
    /// Newest first.
    layers: Vec<String>,
    mask: Option<String>,
    base: String,
    /// The layers lie within the base.
    overlap: bool,
    /// Everything lies on one file system, so the kernel shows its inode numbers as they are.
    is_one_file_system: bool,
}

/// All that an overlay shows is on one device then, and has the same number in a listing as by itself: the kernel marks what is not on
/// the file system of the head in the uppermost bits of its number. What is on it keeps the number that it has in reality. Without
/// this, files would be on another device than their directories, and whatever stays on one device would leave them out.
///
/// Never `xino=on`: with it the kernel marks each new directory as opaque, and what reality adds to it after an apply is not seen.
const ONE_DEVICE: &str = ",xino=auto";

pub(super) fn lay_out(boot: &Boot, clones: &Clones, path: &Path, tree: usize) -> io::Result<Lowers> {
    let base = format!("{tree}.base");
    rustix::fs::mkdir(&base, Mode::RWXU)?;
    attach(clones.tree(path)?, CWD, Path::new(&base))?;
    let mut layers = Vec::with_capacity(boot.stack.len());
    for layer in &boot.stack {
        let layer = Path::new(LAYERS).join(layer.as_str());
        // Without it, the sandbox would see less than it is.
        if !is_directory(&layer)? {
            return Err(io::Error::new(io::ErrorKind::NotFound, format!("{} is missing", layer.display())));
        }
        let directory = layer.join(tree.to_string());
        // A tree that came later, as a new mount does, has no part in the older layers.
        if is_directory(&directory)? {
            let name = format!("{tree}.{}", layers.len());
            rustix::fs::symlink(&directory, &name)?;
            layers.push(name);
        }
    }
    let device = |mount: &OwnedFd| rustix::fs::fstat(mount).map(|meta| meta.st_dev);
    let is_beside_head = device(clones.tree(path)?)? == device(&clones.state)?;
    let mask = mask_layers::layer_of(&boot.masks, path);
    let is_one_file_system = is_beside_head && mask.is_none();
    let overlap = is_beside_head && boot.layers.starts_with(path);
    Ok(Lowers { tree, layers, mask, base, overlap, is_one_file_system })
}

impl Lowers {
    /// The kernel refuses a lower layer that lies within another one, as a state directory lies within `/`. Then reality and
    /// its mask become one read-only overlay, whose root lies within nothing, and the layers are stacked on that. All are returned, the
    /// outer one first.
    pub(super) fn mount(&self, boot: &Boot, target: &Path) -> io::Result<Vec<Overlay>> {
        if !self.layers.is_empty() && self.overlap {
            return self.mount_nested(boot, target);
        }
        // For an ordinary user's trees the kernel would only log that it cannot.
        let is_of_use = boot.identity.started_by_root() && !self.is_one_file_system;
        let one_device = if is_of_use { ONE_DEVICE } else { "" };
        match overlay(&(self.options(&self.bottom(), boot) + one_device), target) {
            // By way of a bind mount the layers may lie within the base under another name.
            Err(Errno::LOOP) if !self.layers.is_empty() => {
                // The kernel has marked the work directory as used before it found that out.
                remove::contents(&self.work(boot)).map_err(|e| e.source)?;
                self.mount_nested(boot, target)
            }
            other => {
                other?;
                Ok(vec![Overlay::mounted_at(target, false)?])
            }
        }
    }

    fn mount_nested(&self, boot: &Boot, target: &Path) -> io::Result<Vec<Overlay>> {
        let inner = format!("{}.inner", self.tree);
        rustix::fs::mkdir(&inner, Mode::RWXU)?;
        let mask = match &self.mask {
            Some(mask) => mask.clone(),
            // An overlay without a head needs two layers.
            None => {
                let empty = format!("{}.empty", self.tree);
                rustix::fs::mkdir(&empty, Mode::RWXU)?;
                empty
            }
        };
        let options = format!("lowerdir={mask}:{},{}", self.base, mode(boot));
        overlay(&options, Path::new(&inner))?;
        overlay(&self.options(&inner, boot), target)?;
        Ok(vec![Overlay::mounted_at(target, false)?, Overlay::mounted_at(Path::new(&inner), true)?])
    }

    /// Runs the user-space implementation, which serves from the background. We mount for it, so that it need not be able to.
    pub(super) fn mount_in_user_space(&self, boot: &Boot, target: &Path) -> io::Result<Vec<Overlay>> {
        fuse::check_marks(&self.work(boot))?;
        fuse::check_layer(&head_of(self.tree))?;
        for layer in &self.layers {
            fuse::check_layer(Path::new(layer))?;
        }
        let mut command = std::process::Command::new("fuse-overlayfs");
        command.arg("-o").arg(self.layered(&self.bottom(), boot)).env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
        fuse::mount_and_serve(command, target, boot.identity)?;
        Ok(vec![Overlay::mounted_at(target, false)?])
    }

    fn bottom(&self) -> String {
        self.mask.iter().chain([&self.base]).map(String::as_str).collect::<Vec<_>>().join(":")
    }

    fn layered(&self, bottom: &str, boot: &Boot) -> String {
        let lowers = self.layers.iter().map(String::as_str).chain([bottom]).collect::<Vec<_>>().join(":");
        let (head, work) = (head_of(self.tree), self.work(boot));
        format!("lowerdir={lowers},upperdir={},workdir={}", head.display(), work.display())
    }

    fn work(&self, boot: &Boot) -> PathBuf {
        Path::new(STATE).join("work").join(boot.work.name(self.tree))
    }

    fn options(&self, bottom: &str, boot: &Boot) -> String {
        // `volatile`: a head is not reality; it need not survive a power cut, and syncing it would stall every tear-down.
        format!("{},{},index=off,metacopy=off,volatile", self.layered(bottom, boot), mode(boot))
    }
}

fn mode(boot: &Boot) -> &'static str {
    if boot.identity.started_by_root() { "redirect_dir=follow" } else { "userxattr" }
}

/// Shows a real directory read-only: it lies below what masks it, or over an empty one. What the kernel keeps for a file in memory,
/// such as the content of a pipe, who listens at a socket or who has a lock, it then keeps for the file of the overlay and not for
/// the real one.
pub(super) fn show(boot: &Boot, path: &Path, real: &OwnedFd, target: &Path, mounted: &mut Mounted) -> io::Result<()> {
    let name = format!("shown.{}", mounted.shown);
    mounted.shown += 1;
    rustix::fs::mkdir(&name, Mode::RWXU)?;
    attach(real, CWD, Path::new(&name))?;
    // Marks of overlays that reality may hold mean nothing here.
    let mode = if boot.identity.started_by_root() { "redirect_dir=nofollow" } else { "userxattr" };
    let mount = |lowers: &str, more: &str| {
        let flags = MountFlags::NODEV | MountFlags::NOSUID | MountFlags::RDONLY;
        overlay_with(flags, &format!("lowerdir={lowers},{mode}{more}"), target)
    };
    match (mask_layers::layer_of(&boot.masks, path), nothing_beside(boot, path, real)?) {
        (Some(mask), _) => mount(&format!("{mask}:{name}"), ONE_DEVICE)?,
        (None, Some(nothing)) => match mount(&format!("{name}:{}", nothing.display()), "") {
            // By way of a bind mount it may lie within what is shown.
            Err(Errno::LOOP) => mount(&over_nothing(&name)?, ONE_DEVICE)?,
            other => other?,
        },
        (None, None) => mount(&over_nothing(&name)?, ONE_DEVICE)?,
    }
    mounted.overlays.push(Overlay::mounted_at(target, true)?);
    Ok(())
}

/// An empty directory on the file system of what is shown: over one, the kernel shows devices and inode numbers as they are in
/// reality. It must not lie within what is shown.
fn nothing_beside(boot: &Boot, path: &Path, real: &OwnedFd) -> io::Result<Option<PathBuf>> {
    if boot.directory.starts_with(path) || rustix::fs::fstat(real)?.st_dev != rustix::fs::stat(STATE)?.st_dev {
        return Ok(None);
    }
    let nothing = Path::new(STATE).join(NOTHING);
    match rustix::fs::mkdir(&nothing, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => Ok(Some(nothing)),
        // A full disk, for one.
        Err(_) => Ok(None),
    }
}

/// The same in memory.
fn over_nothing(name: &str) -> io::Result<String> {
    let empty = format!("{name}.empty");
    rustix::fs::mkdir(&empty, Mode::RWXU)?;
    Ok(format!("{name}:{empty}"))
}

fn overlay(options: &str, target: &Path) -> Result<(), Errno> {
    overlay_with(MountFlags::NODEV, options, target)
}

fn overlay_with(flags: MountFlags, options: &str, target: &Path) -> Result<(), Errno> {
    let options = CString::new(options).map_err(|_| Errno::INVAL)?;
    mount("overlay", target, "overlay", flags, Some(options.as_c_str()))
}

fn is_directory(path: &Path) -> io::Result<bool> {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) => Ok(metadata.is_dir()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
