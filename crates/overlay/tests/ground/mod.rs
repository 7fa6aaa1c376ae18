//! Layers in memory, in a mount namespace of their own: `base` below `layer` below an empty `head`.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags, mount, mount_change, unmount};
use rustix::thread::UnshareFlags;

pub struct Ground(PathBuf);

impl Ground {
    pub fn new(name: &str) -> Option<Self> {
        if whatif_sys::namespaces::unshare(UnshareFlags::NEWNS).is_err() {
            println!("skipped: no mount namespace can be made here");
            return None;
        }
        mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).unwrap();
        let place = std::env::temp_dir().join(format!("whatif-overlay-{}-{name}", std::process::id()));
        fs::create_dir_all(&place).unwrap();
        mount("tmpfs", &place, "tmpfs", MountFlags::empty(), None).unwrap();
        for directory in ["base", "layer", "head", "work", "root"] {
            fs::create_dir(place.join(directory)).unwrap();
        }
        Some(Self(place))
    }

    pub fn path(&self, path: &str) -> PathBuf {
        self.0.join(path)
    }

    pub fn file(&self, path: &str, content: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    pub fn directory(&self, path: &str) -> File {
        fs::create_dir_all(self.path(path)).unwrap();
        File::open(self.path(path)).unwrap()
    }

    /// As overlay file systems are told of them.
    pub fn options(&self) -> String {
        let at = |name: &str| self.path(name).display().to_string();
        format!("lowerdir={}:{},upperdir={},workdir={}", at("layer"), at("base"), at("head"), at("work"))
    }

    /// Looks at what was mounted at `root`.
    pub fn look<T>(&self, look: impl FnOnce(&Path) -> T) -> T {
        let root = self.path("root");
        let result = look(&root);
        unmount(&root, UnmountFlags::DETACH).unwrap();
        result
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        let _ = unmount(&self.0, UnmountFlags::DETACH);
        let _ = fs::remove_dir(&self.0);
    }
}
