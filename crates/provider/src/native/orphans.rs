//! Keepers that run for a state directory, found by what they hold.

use std::fs;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{PidfdGetfdFlags, pidfd_getfd};
use whatif_keeper::command_line::KEEPER;
use whatif_sys::keeper::FIRST_PASSED;
use whatif_sys::process::Process;
use whatif_types::{Handle, SandboxId};

use super::instance::{DELETED, Keeper};
use crate::Orphan;

/// Among the first of its descriptors a keeper has its lock.
const FIRST_ONES: i32 = 64;

pub(super) fn all(state: &Path) -> impl Iterator<Item = Orphan> {
    Process::all(KEEPER).filter_map(move |(process, id)| {
        let id = SandboxId::parse(&id)?;
        let directory = held_directory(&process, state)?;
        if process.wait(Some(Duration::ZERO)) {
            return None;
        }
        let handle = Handle::new(process.number());
        // One whose directory is gone cannot be connected to.
        let instance = Box::new(Keeper::of(id.clone(), directory.clone().unwrap_or_default(), process));
        Some(Orphan { instance, id, handle, directory })
    })
}

/// The directory whose lock a keeper holds as long as it lives, if that lies (or lay) in this state directory. Asked by way of the
/// process itself: what `/proc` shows of the descriptors of a user's keeper is for root only.
fn held_directory(keeper: &Process, state: &Path) -> Option<Option<PathBuf>> {
    let passed = FIRST_PASSED..FIRST_PASSED + FIRST_ONES;
    passed.filter_map(|number| pidfd_getfd(keeper.as_fd(), number, PidfdGetfdFlags::empty()).ok()).find_map(|held| {
        let held = fs::read_link(format!("/proc/self/fd/{}", held.as_raw_fd())).ok()?;
        let text = held.to_str()?;
        let (path, is_deleted) = text.strip_suffix(DELETED).map_or((text, false), |path| (path, true));
        let directory = Path::new(path).strip_prefix(state).ok()?.parent().filter(|_| path.ends_with("/work"))?;
        Some((!is_deleted).then(|| state.join(directory)))
    })
}
