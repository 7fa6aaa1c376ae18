//! The state directory and the room in it.

use std::path::Path;

use whatif_layers::allotment::{Allotments, Lacking};
use whatif_layers::state_place::is_on_overlay;
use whatif_sys::absence;
use whatif_types::Size;

use super::Probe;
use crate::state_place::Remark;
use crate::{EngineError, StatePlace};

const LITTLE: u64 = 1 << 30;
const TOO_LITTLE: u64 = 64 << 20;

/// What it takes to have overlays.
pub(super) const NEEDED: &str =
    "set WHATIF_HOME to a directory on ext4, xfs, btrfs or tmpfs (inside a container: a volume, or /dev/shm)";

pub(super) fn probes(place: &StatePlace) -> Vec<Probe> {
    let nearest = existing(&place.path);
    medium(place).into_iter().chain(room(&place.path, nearest)).chain([limit(nearest)]).collect()
}

fn medium(place: &StatePlace) -> Option<Probe> {
    const NAME: &str = "state directory";
    match place.remark() {
        Ok(Some(Remark { what, fix })) => Some(Probe::warn(NAME, what, fix)),
        _ if is_on_overlay(&place.path) => {
            let what =
                format!("{} is on an overlay file system, which cannot hold the changes of another one", place.path.display());
            Some(Probe::warn(NAME, what, NEEDED))
        }
        _ => None,
    }
}

/// The directory may not exist yet; its nearest parent is on the same file system.
/// One that cannot be looked at is not passed over: what is asked of it next says so.
fn existing(state_dir: &Path) -> &Path {
    state_dir.ancestors().find(|a| absence::leads_somewhere(a).unwrap_or(true)).unwrap_or(Path::new("/"))
}

/// By what a limit on the changes of a sandbox would be enforced.
fn limit(existing: &Path) -> Probe {
    const NAME: &str = "limit on disk";
    match Allotments::of(existing) {
        Ok(Ok(_)) => Probe::ok(NAME, "exact, by project quotas of the file system of the state directory"),
        Ok(Err(why)) => {
            let exact = match why {
                Lacking::Quotas => {
                    "an exact one takes root, Linux 5.14, and a file system with project quotas for WHATIF_HOME (XFS or ext4, mounted \
                     with -o prjquota; ext4 first: tune2fs -O project,quota DEVICE)"
                }
                Lacking::Rights => "run as root for an exact one",
            };
            Probe::ok(NAME, format!("watched by the keeper, which ends what runs when it is too much; {why}: {exact}"))
        }
        Err(error) => {
            let message = whatif_types::explain::whole_message(&EngineError::from(error));
            Probe::fail(NAME, message, "'dmesg' may say more; without project quotas (-o noquota) limits are watched instead")
        }
    }
}

fn room(state_dir: &Path, existing: &Path) -> Vec<Probe> {
    const NAME: &str = "disk space";
    let Ok(found) = rustix::fs::statvfs(existing) else {
        return vec![Probe::fail(
            NAME,
            format!("{} cannot be examined", existing.display()),
            "set WHATIF_HOME to another directory",
        )];
    };
    let free = found.f_bavail * found.f_frsize;
    let detail = format!("{} free at {}", Size(free), state_dir.display());
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
