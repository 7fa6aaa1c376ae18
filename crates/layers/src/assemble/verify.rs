//! Checks that what was mounted is what was planned. A sandbox that is not what it claims to be must not start.

use std::io;
use std::path::Path;

use rustix::fs::{StatVfsMountFlags, statfs, statvfs};
use whatif_types::boot::{Boot, Protection};
use whatif_types::{Backend, PlaceKind};

use super::mounts::Clones;
use super::{AssembleError, Cause, relative, step, step_of};

pub(super) const OVERLAYFS: u64 = 0x794c_7630;
const FUSE: u64 = 0x6573_5546;
const TMPFS: u64 = 0x0102_1994;
const PROC: u64 = 0x9fa0;

/// For whoever has entered it.
pub(super) fn plan(boot: &Boot, clones: &Clones, protection: &Protection) -> Result<(), AssembleError> {
    places(boot, clones, protection, Path::new("/"))?;
    let proc = Path::new("/proc");
    let is_borrowed = protection.borrowed.iter().any(|(path, _)| path == proc);
    check(proc, Some(PROC), is_borrowed).map_err(step("verify /proc"))?;
    for path in ["/proc/sys", "/sys"] {
        check(Path::new(path), None, true).map_err(step(format!("verify {path}")))?;
    }
    Ok(())
}

/// The same without what the kernel shows of itself, for a view that stands somewhere.
pub(super) fn places(boot: &Boot, clones: &Clones, protection: &Protection, at: &Path) -> Result<(), AssembleError> {
    for place in &boot.plan.places {
        let path = &at.join(relative(&place.path));
        let downgraded = protection.read_only.iter().any(|(p, _)| *p == place.path);
        let expected = match place.kind {
            PlaceKind::Writable { .. } if downgraded => check(path, None, true),
            PlaceKind::Writable { .. } => match boot.plan.backend {
                Backend::Overlay => check(path, Some(OVERLAYFS), false),
                Backend::Fuse => check(path, Some(FUSE), false),
                Backend::Copy => check(path, None, false),
            },
            PlaceKind::Skeleton { .. } => check(path, None, false),
            PlaceKind::ReadOnly => check(path, None, true),
            PlaceKind::Private { .. } => check(path, Some(TMPFS), false),
            PlaceKind::Hidden => continue,
        };
        match expected {
            // There, the sandbox sees what it sees around it.
            Err(_) if clones.lost(boot, place) => {}
            other => other.map_err(step_of(Cause::Layers, format!("verify {}", place.path.display())))?,
        }
    }
    Ok(())
}

fn check(path: &Path, kind: Option<u64>, read_only: bool) -> io::Result<()> {
    if let Some(kind) = kind {
        let found = statfs(path)?.f_type as u64;
        if found != kind {
            return Err(io::Error::other(format!("found file system {found:#x} where {kind:#x} was mounted")));
        }
    }
    let found = statvfs(path)?.f_flag.contains(StatVfsMountFlags::RDONLY);
    match (found, read_only) {
        (true, false) => Err(io::Error::other("it came up read-only")),
        (false, true) => Err(io::Error::other("it can be written")),
        _ => Ok(()),
    }
}
