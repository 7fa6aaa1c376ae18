//! File systems, loop devices and mounts, each taken back when dropped.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use crate::wait_for;

/// For what a busy machine still does with a disk.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileSystem {
    Ext4,
    Xfs,
    Btrfs,
}

impl FileSystem {
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
            Self::Btrfs => "btrfs",
        }
    }

    /// The smallest that its tools make without complaint.
    fn megabytes(self) -> u64 {
        match self {
            Self::Ext4 => 48,
            Self::Xfs => 320,
            Self::Btrfs => 128,
        }
    }

    #[must_use]
    pub fn is_installed(self) -> bool {
        ["/sbin", "/usr/sbin"].iter().any(|place| Path::new(place).join(format!("mkfs.{}", self.name())).exists())
    }

    /// Makes an image with nothing in it.
    pub fn make(self, image: &Path) {
        let file = File::create(image).expect("the scratch directory is writable");
        file.set_len(self.megabytes() << 20).expect("a file can have holes");
        let quiet = if self == Self::Ext4 { ["-q", "-F"] } else { ["-q", "-f"] };
        let mut command = Command::new(format!("mkfs.{}", self.name()));
        // The journal is not to be made later, in the background, by the kernel.
        let more: &[&str] = if self == Self::Ext4 { &["-E", "lazy_itable_init=0,lazy_journal_init=0"] } else { &[] };
        let made = command.args(quiet).args(more).arg(image).output().expect("it is installed");
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    }
}

/// A loop device over a file.
#[derive(Debug)]
pub struct Device {
    path: PathBuf,
}

impl Device {
    #[must_use]
    pub fn over(file: &Path) -> Self {
        // Another test may take the same free one.
        let attached = wait_for(PATIENCE, || {
            let tried = Command::new("losetup").args(["--find", "--show"]).arg(file).output().ok()?;
            tried.status.success().then(|| String::from_utf8_lossy(&tried.stdout).trim().to_owned())
        });
        Self { path: PathBuf::from(attached.expect("a loop device can be had")) }
    }

    /// Mounts it. A journal is replayed by that.
    #[must_use]
    pub fn mount(self, at: &Path, file_system: FileSystem) -> Mounted {
        fs::create_dir_all(at).expect("the scratch directory is writable");
        // Images of one disk have the same id, and the kernel may still be busy with the last one.
        let options = (file_system == FileSystem::Xfs).then_some(c"nouuid");
        mount(&self.path, at, file_system.name(), MountFlags::empty(), options)
            .unwrap_or_else(|e| panic!("{} on {} cannot be mounted: {e}", file_system.name(), self.path.display()));
        Mounted { at: at.to_owned(), _device: self }
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        let _ = Command::new("losetup").arg("--detach").arg(&self.path).status();
        // Mounts in namespaces of sandboxes that are just ending keep it.
        let name = self.path.file_name().unwrap_or_default();
        let backing = Path::new("/sys/block").join(name).join("loop/backing_file");
        let _ = wait_for(PATIENCE, || (!backing.exists()).then_some(()));
    }
}

/// A mounted device.
#[derive(Debug)]
pub struct Mounted {
    at: PathBuf,
    _device: Device,
}

impl Mounted {
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.at
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Sandboxes that were just removed may hold it for a moment.
        let gone = wait_for(PATIENCE, || unmount(&self.at, UnmountFlags::empty()).ok());
        if gone.is_none() {
            let _ = unmount(&self.at, UnmountFlags::DETACH);
        }
    }
}
