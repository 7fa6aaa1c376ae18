//! The state directory and the room in it.

use std::path::Path;

use whatif_sys::absence;

use super::Probe;

const LITTLE: u64 = 1 << 30;
const TOO_LITTLE: u64 = 64 << 20;

pub(super) fn probes(state_dir: &Path) -> Vec<Probe> {
    const NAME: &str = "disk space";
    // The directory may not exist yet; its nearest parent is on the same file system.
    // One that cannot be looked at is not passed over: the next line says so.
    let existing = state_dir.ancestors().find(|a| absence::leads_somewhere(a).unwrap_or(true)).unwrap_or(Path::new("/"));
    let Ok(found) = rustix::fs::statvfs(existing) else {
        return vec![Probe::fail(
            NAME,
            format!("{} cannot be examined", existing.display()),
            "set WHATIF_HOME to another directory",
        )];
    };
    let free = found.f_bavail * found.f_frsize;
    let detail = format!("{} MiB free at {}", free >> 20, state_dir.display());
    let fix = "remove sandboxes (whatif ls, whatif rm NAME), or set WHATIF_HOME to a directory with more room";
    vec![match free {
        0..TOO_LITTLE => Probe::fail(NAME, detail, fix),
        TOO_LITTLE..LITTLE => Probe::warn(NAME, detail, fix),
        _ if found.f_favail == 0 && found.f_files > 0 => {
            Probe::fail(NAME, format!("{detail}, but no file can be made (no inodes)"), fix)
        }
        _ => Probe::ok(NAME, detail),
    }]
}
