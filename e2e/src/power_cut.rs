//! Power cuts, simulated: a disk that remembers every write and every flush, and images of what it may hold when the power goes.
//!
//! The product runs on a real file system on a loop device, whose backing file is served by this process over FUSE. A write counts
//! as done when a flush that began after it has ended; of those after the last flush any may be missing. So an image is made of
//! everything up to a flush and of some of what came later, and mounting it is what happens when the machine comes up again.

mod device;
mod disk;
mod wire;

pub use self::device::{Device, FileSystem, Mounted};
pub use self::disk::{Disk, Event, Log};

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

use crate::Random;

/// Which of the writes since the last flush reached the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Survivors {
    None,
    All,
    /// Each with one chance in two, by this seed.
    Some(u64),
}

/// A moment at which the power goes, by its place in the log.
#[derive(Clone, Copy, Debug)]
pub struct Cut {
    pub at: usize,
    pub survivors: Survivors,
}

impl Cut {
    /// Makes the image in the file `into`: `base` with what this cut leaves of the log.
    pub fn image(&self, base: &Path, log: &[Event], into: &Path) {
        let copied = Command::new("/bin/cp").args(["--sparse=always"]).arg(base).arg(into).status();
        assert!(copied.is_ok_and(|s| s.success()), "the image can be copied");
        let image = File::options().write(true).open(into).expect("it was just made");
        let flushed = log[..self.at].iter().rposition(|e| matches!(e, Event::Flush)).unwrap_or(0);
        let mut random = Random::from(if let Survivors::Some(seed) = self.survivors { seed } else { 0 });
        for (place, event) in log[..self.at].iter().enumerate() {
            let Event::Write { offset, bytes } = event else { continue };
            let survives = place < flushed
                || match self.survivors {
                    Survivors::None => false,
                    Survivors::All => true,
                    Survivors::Some(_) => random.below(2) == 0,
                };
            if survives {
                image.write_all_at(bytes, *offset).expect("there is room for an image");
            }
        }
    }
}

const ALONE: &str = "WHATIF_E2E_ALONE";

/// Runs a test by itself in a mount namespace of its own: for root every mount is part of reality, so the disks of one test would
/// come and go in the sandboxes of all others. True in there, where the test is to be done.
#[must_use]
pub fn alone() -> bool {
    if std::env::var_os(ALONE).is_some() {
        hide_other_worlds();
        return true;
    }
    let test = std::thread::current().name().unwrap_or_default().to_owned();
    let itself = std::env::current_exe().expect("a test has a program");
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "--"]).arg(itself).args(["--exact", &test, "--nocapture"]);
    let ran = command.env(ALONE, "1").output().expect("unshare is installed");
    let said = [ran.stdout, ran.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(ran.status.success(), "{said}");
    false
}

/// Worlds of tests that run at the same time come and go; here there are none. In memory, images are made faster too.
fn hide_other_worlds() {
    let mounted = rustix::mount::mount("worlds", "/var/tmp", "tmpfs", rustix::mount::MountFlags::empty(), Some(c"mode=1777"));
    mounted.expect("root can mount it in a namespace of its own");
}

/// Whether simulated disks can be had here, or why not.
pub fn is_possible() -> Result<(), String> {
    if !rustix::process::geteuid().is_root() {
        return Err("a simulated disk needs root".to_owned());
    }
    for device in ["/dev/fuse", "/dev/loop-control"] {
        if let Err(error) = fs::metadata(device) {
            return Err(format!("a simulated disk needs {device}: {error}"));
        }
    }
    Ok(())
}
