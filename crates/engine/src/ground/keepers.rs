//! The processes that keepers are.

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, Signal, pidfd_getfd, pidfd_open, pidfd_send_signal};
use whatif_keeper::Client;
use whatif_layers::state_dir::AliveLock;
use whatif_provider::native::KEEPER_COMMAND;
use whatif_sys::children;
use whatif_sys::keeper::FIRST_PASSED;
use whatif_types::{Sandbox, SandboxId};

use crate::ground::freezer;

/// How long an ended keeper may take to let go of its mounts.
const LAST_MOMENTS: Duration = Duration::from_secs(5);
/// How many descriptors a keeper is born with; its lock is one of them.
const PASSED: i32 = 3;
/// How the kernel marks the path of something that is deleted.
const DELETED: &str = " (deleted)";

/// A descriptor of the keeper's process. A number may have changed hands, or mean somebody else in another PID namespace, so the
/// process has to say that it is the one.
pub(crate) fn keeper_pidfd(sandbox: &Sandbox) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(sandbox.details.keeper_pid?).ok()?)?;
    let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    (keeper_of(pid)? == sandbox.id).then_some(pidfd)
}

/// The sandbox that a process is the keeper of, by its command line.
pub(crate) fn keeper_of(pid: Pid) -> Option<SandboxId> {
    sandbox_of(pid, KEEPER_COMMAND)
}

/// Whether a process serves this sandbox, as what the command says.
pub(crate) fn is_process_of(pid: Pid, command: &str, id: &SandboxId) -> bool {
    sandbox_of(pid, command).is_some_and(|found| found == *id)
}

fn sandbox_of(pid: Pid, command: &str) -> Option<SandboxId> {
    let line = std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).ok()?;
    let mut words = line.split(|b| *b == 0).skip(1);
    let is_meant = words.next()? == command.as_bytes();
    let id = SandboxId::parse(std::str::from_utf8(words.next()?).ok()?)?;
    is_meant.then_some(id)
}

/// The whole PID namespace dies with its first process.
pub(crate) fn end_keeper(pidfd: &OwnedFd) {
    let _ = pidfd_send_signal(pidfd, Signal::KILL);
}

/// True when the process is gone; unmounting its overlays is part of its end.
pub(crate) fn wait_until_ended(pidfd: &OwnedFd, limit: Duration) -> bool {
    let timeout = Timespec { tv_sec: limit.as_secs() as i64, tv_nsec: limit.subsec_nanos().into() };
    let has_ended = poll(&mut [PollFd::new(pidfd, PollFlags::IN)], Some(&timeout)).is_ok_and(|n| n > 0);
    if has_ended {
        children::collect();
    }
    has_ended
}

/// Ends whatever keeper still serves this directory, and waits until it is gone.
pub(crate) fn end_keeper_in(directory: &std::path::Path) {
    if let Ok(mut client) = Client::connect(directory) {
        let _ = rustix::net::sockopt::set_socket_timeout(client.as_fd(), rustix::net::sockopt::Timeout::Recv, Some(LAST_MOMENTS));
        let _ = client.stop(0);
    }
    // One that takes nobody in any more may still be there.
    await_end(directory);
}

/// Waits for a keeper that is about to end. False: it is still there.
pub(crate) fn await_end(directory: &std::path::Path) -> bool {
    let deadline = Instant::now() + LAST_MOMENTS;
    // One that cannot be asked about may live.
    while AliveLock::is_held(directory).unwrap_or(true) {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(LAST_MOMENTS / 10_000);
    }
    true
}

/// The keeper of a directory in the state directory.
pub(crate) struct Keeper {
    pub pid: Pid,
    pidfd: OwnedFd,
    pub id: SandboxId,
    /// Where its sandbox is, if it still is anywhere.
    pub directory: Option<PathBuf>,
}

impl Keeper {
    /// Those of this state directory.
    pub fn all(root: &Path) -> impl Iterator<Item = Self> {
        processes().filter_map(move |pid| Self::find(pid, root))
    }

    /// This process, if it is a keeper of ours. A number may be given to another process at any time, so it counts only while a
    /// descriptor proves that the process is still the one that was looked at.
    fn find(pid: Pid, root: &Path) -> Option<Self> {
        keeper_of(pid)?;
        let pidfd = pidfd_open(pid, PidfdFlags::empty()).ok()?;
        let id = keeper_of(pid)?;
        let directory = held_directory(&pidfd, root)?;
        (!wait_until_ended(&pidfd, Duration::ZERO)).then_some(Self { pid, pidfd, id, directory })
    }

    pub fn end(&self) -> bool {
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
