//! Keepers of this state directory that no record knows of.

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use whatif_layers::state_dir::SandboxLock;
use whatif_sys::keeper::FIRST_PASSED;
use whatif_types::{Sandbox, SandboxId, Status};

use super::{Action, Collected, OrphanKind};
use crate::stop::{end_keeper, keeper_of, wait_until_ended};
use crate::{Engine, EngineError, freezer};

/// How long an ended keeper may take to let go of its mounts.
const LAST_MOMENTS: Duration = Duration::from_secs(5);
/// How many descriptors a keeper is born with; its lock is one of them.
const PASSED: i32 = 3;
/// How the kernel marks the path of something that is deleted.
const DELETED: &str = " (deleted)";

/// The keeper of a directory in the state directory.
struct Keeper {
    pid: Pid,
    pidfd: OwnedFd,
    id: SandboxId,
    /// Where its sandbox is, if it still is anywhere.
    directory: Option<PathBuf>,
}

/// Nobody knows this keeper, and nobody is about to: whoever could be is kept out.
struct Unowned {
    _lock: Option<SandboxLock>,
}

impl Engine {
    /// They end, and everything in them. What they wrote is not touched.
    pub(super) fn reconcile_keepers(&self, collected: &mut Collected) -> Result<(), EngineError> {
        let root = self.state.root();
        let root = fs::canonicalize(root).map_err(|e| EngineError::io("examine", root, e))?;
        for keeper in processes().filter_map(|pid| Keeper::find(pid, &root)) {
            if let Some(_unowned) = self.is_unowned(&keeper)? {
                let what = format!("{} (the keeper of {})", keeper.pid.as_raw_nonzero(), keeper.id);
                collected.treat(OrphanKind::Process, Path::new(&what), Action::Ended, || keeper.end());
            }
        }
        Ok(())
    }

    /// The keeper of a sandbox whose directory is gone, and with it all that leads there.
    pub(crate) fn end_keeper_without_directory(&self, sandbox: &Sandbox) -> Result<(), EngineError> {
        let root = self.state.root();
        let root = fs::canonicalize(root).map_err(|e| EngineError::io("examine", root, e))?;
        let is_meant = |keeper: &Keeper| keeper.id == sandbox.id && keeper.directory.is_none();
        match processes().filter_map(|pid| Keeper::find(pid, &root)).find(is_meant) {
            Some(keeper) if !keeper.end() => Err(EngineError::StillRunning { name: sandbox.name.clone() }),
            _ => Ok(()),
        }
    }

    fn is_unowned(&self, keeper: &Keeper) -> Result<Option<Unowned>, EngineError> {
        let Some(directory) = &keeper.directory else { return Ok(Some(Unowned { _lock: None })) };
        // What is being made, decided about or deleted, or waits in the pool, has an owner or is repaired elsewhere.
        let settled = self.state.settled()?.into_iter().find(|id| directory.ends_with(Path::new("sandboxes").join(id.as_str())));
        let Some(id) = settled else { return Ok(None) };
        let Some(lock) = SandboxLock::take(directory)? else { return Ok(None) };
        // With the records lost, it is a sandbox that can be adopted as it runs.
        let is_known = match self.store.get(&id)? {
            Some(sandbox) => sandbox.status == Status::Active,
            None => self.is_adoptable(&id)?,
        };
        Ok((!is_known).then_some(Unowned { _lock: Some(lock) }))
    }
}

impl Keeper {
    /// This process, if it is a keeper of ours. A number may be given to another process at any time, so it counts only while a
    /// descriptor proves that the process is still the one that was looked at.
    fn find(pid: Pid, root: &Path) -> Option<Self> {
        keeper_of(pid)?;
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        let id = keeper_of(pid)?;
        let directory = held_directory(&pidfd, root)?;
        (!wait_until_ended(&pidfd, Duration::ZERO)).then_some(Self { pid, pidfd, id, directory })
    }

    fn end(&self) -> bool {
        end_keeper(&self.pidfd);
        match &self.directory {
            Some(directory) => freezer::wait_until_ended(&self.pidfd, directory, LAST_MOMENTS),
            None => wait_until_ended(&self.pidfd, LAST_MOMENTS),
        }
    }
}

/// One that cannot be looked at is not ended.
fn processes() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    entries.filter_map(|e| Pid::from_raw(e.file_name().to_str()?.parse().ok()?))
}

/// The directory whose lock a keeper holds as long as it lives, if that lies (or lay) in this state directory. Asked by way of the
/// process itself: what `/proc` shows of the descriptors of a user's keeper is for root only.
fn held_directory(pidfd: &OwnedFd, root: &Path) -> Option<Option<PathBuf>> {
    let passed = FIRST_PASSED..FIRST_PASSED + PASSED;
    passed.filter_map(|number| pidfd_getfd(pidfd, number, PidfdGetfdFlags::empty()).ok()).find_map(|held| {
        let held = fs::read_link(format!("/proc/self/fd/{}", held.as_raw_fd())).ok()?;
        let text = held.to_str()?;
        let (path, is_deleted) = text.strip_suffix(DELETED).map_or((text, false), |path| (path, true));
        let directory = Path::new(path).strip_prefix(root).ok()?.parent().filter(|_| path.ends_with("/work"))?;
        Some((!is_deleted).then(|| root.join(directory)))
    })
}
