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

/// What lies under one head, by names on the stage: short ones, so that the options fit a page however deep a stack is.
pub(super) struct Lowers {
    tree: usize,
    /// Newest first.
    layers: Vec<String>,
    mask: Option<String>,
    base: String,
    /// The layers lie within the base.
    overlap: bool,
}

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
    Ok(Lowers { tree, layers, mask: mask_layers::layer_of(&boot.masks, path), base, overlap: boot.layers.starts_with(path) })
}

impl Lowers {
    /// The kernel refuses a lower layer that lies within another one, as a state directory lies within `/`. Then reality and
    /// its mask become one read-only overlay, whose root lies within nothing, and the layers are stacked on that. All are returned, the
    /// outer one first.
    pub(super) fn mount(&self, boot: &Boot, target: &Path) -> io::Result<Vec<Overlay>> {
        if !self.layers.is_empty() && self.overlap {
            return self.mount_nested(boot, target);
        }
        match overlay(&self.options(&self.bottom(), boot), target) {
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
        let options = format!(
            "lowerdir={mask}:{},{}",
            self.base,
            if boot.identity.started_by_root() { "redirect_dir=follow" } else { "userxattr" }
        );
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
        let mode = if boot.identity.started_by_root() { "redirect_dir=follow" } else { "userxattr" };
        format!("{},{mode},index=off,metacopy=off,volatile", self.layered(bottom, boot))
    }
}

/// Shows a real directory read-only: it lies below what masks it, or over an empty one. What the kernel keeps for a file in memory,
/// such as the content of a pipe, who listens at a socket or who has a lock, it then keeps for the file of the overlay and not for
/// the real one.
pub(super) fn show(boot: &Boot, path: &Path, real: &OwnedFd, target: &Path, mounted: &mut Mounted) -> io::Result<()> {
    let name = format!("shown.{}", mounted.shown);
    mounted.shown += 1;
    rustix::fs::mkdir(&name, Mode::RWXU)?;
    attach(real, CWD, Path::new(&name))?;
    let lowers = match mask_layers::layer_of(&boot.masks, path) {
        Some(mask) => format!("{mask}:{name}"),
        None => {
            let empty = format!("{name}.empty");
            rustix::fs::mkdir(&empty, Mode::RWXU)?;
            format!("{name}:{empty}")
        }
    };
    // Marks of overlays that reality may hold mean nothing here.
    let mode = if boot.identity.started_by_root() { "redirect_dir=nofollow" } else { "userxattr" };
    overlay_with(MountFlags::NODEV | MountFlags::NOSUID | MountFlags::RDONLY, &format!("lowerdir={lowers},{mode}"), target)?;
    mounted.overlays.push(Overlay::mounted_at(target, true)?);
    Ok(())
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
