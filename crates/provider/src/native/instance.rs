//! A keeper that runs, or ran when its record was written.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use whatif_cgroup::Version;
use whatif_keeper::Client;
use whatif_keeper::client::ClientError;
use whatif_keeper::command_line::KEEPER;
use whatif_keeper::protocol::{self, Stats};
use whatif_sys::process::Process;
use whatif_types::{Boot, Handle, SandboxId};

use super::{command_lines, freezer, program};
use crate::{Instance, Pausing, Ports, Recorded, RestackError, Restacker, Restacking, Whereabouts};

/// How the kernel marks the path of something that is deleted.
pub(super) const DELETED: &str = " (deleted)";
/// How often what is paused is let go while a keeper ends: that may have paused it in its last moment.
const AGAIN: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub(super) struct Keeper {
    id: SandboxId,
    directory: PathBuf,
    handle: Option<Handle>,
    /// Looked for when it is first needed. `None` inside: it was not there.
    process: OnceLock<Option<Process>>,
}

impl Keeper {
    pub(super) fn at(at: &Whereabouts<'_>) -> Self {
        Self { id: at.id.clone(), directory: at.directory.to_owned(), handle: at.handle, process: OnceLock::new() }
    }

    /// One that is there.
    pub(super) fn of(id: SandboxId, directory: PathBuf, process: Process) -> Self {
        Self { id, directory, handle: Some(Handle::new(process.number())), process: OnceLock::from(Some(process)) }
    }

    pub(super) fn id(&self) -> &SandboxId {
        &self.id
    }

    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(super) fn process(&self) -> Option<&Process> {
        let find = || Process::find(self.handle?.number(), KEEPER, self.id.as_str());
        self.process.get_or_init(find).as_ref()
    }

    pub(super) fn living(&self) -> io::Result<&Process> {
        self.process().ok_or_else(|| Errno::SRCH.into())
    }
}

impl Instance for Keeper {
    fn connect(&self) -> Result<Client, ClientError> {
        Client::connect(&self.directory)
    }

    fn hold(&self) -> bool {
        self.process().is_some()
    }

    /// The whole PID namespace dies with its first process.
    fn kill(&self) {
        if let Some(process) = self.process() {
            process.kill();
        }
    }

    /// Unmounting its overlays is part of its end.
    fn wait(&self, limit: Option<Duration>) -> bool {
        self.process().is_none_or(|process| process.wait(limit))
    }

    fn view(&self) -> io::Result<OwnedFd> {
        let process = self.living()?;
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::open(process.in_proc("root"), flags, Mode::empty())?;
        // Afterwards: the number may have changed hands before.
        if process.wait(Some(Duration::ZERO)) { Err(Errno::SRCH.into()) } else { Ok(root) }
    }

    fn restack(&self, by: Restacker, boot: &Boot) -> Result<Restacking, RestackError> {
        self.send_in(by, boot)
    }

    fn pause(&self, recorded: &Recorded<'_>) -> Result<Pausing, ClientError> {
        let mut client = self.connect()?;
        self.lend_freezer(&mut client, recorded)?;
        Ok(Pausing::over(client))
    }

    fn prepare_pause(&self, recorded: &Recorded<'_>) {
        if self.lacks_freezer(recorded)
            && let Ok(mut client) = self.connect()
        {
            let _ = self.lend_freezer_early(&mut client, recorded, |_| true);
        }
    }

    /// A command can begin in the group in v1, which is root's.
    fn prepare_pause_ahead(&self, keeper: &mut Client, recorded: &Recorded<'_>) -> Result<(), ClientError> {
        if !rustix::process::geteuid().is_root() || whatif_cgroup::is_unified() || !self.lacks_freezer(recorded) {
            return Ok(());
        }
        self.lend_freezer_early(keeper, recorded, |version| version == Version::V1)
    }

    fn was_prepared(&self, directory: &Path) -> bool {
        freezer::was_lent(directory)
    }

    fn see_off(&self, directory: &Path, limit: Duration) -> bool {
        if !freezer::was_lent(directory) {
            return self.wait(Some(limit));
        }
        let deadline = Instant::now() + limit;
        loop {
            freezer::thaw(directory);
            let left = deadline.saturating_duration_since(Instant::now());
            if self.wait(Some(left.min(AGAIN))) {
                return true;
            }
            if left.is_zero() {
                return false;
            }
        }
    }

    fn ports(&self) -> Result<Option<Ports>, ClientError> {
        Ports::claim(self.connect()?)
    }

    /// The keeper counts, and reads the control groups that limit it.
    fn stats(&self) -> Result<Stats, ClientError> {
        self.connect()?.stats()
    }

    fn complete(&self, processes: &mut [protocol::Process]) {
        if let Some(process) = self.process() {
            command_lines::fill_in(process.number(), processes);
        }
    }

    fn is_outdated(&self, programs: &Path) -> bool {
        let another = |process: &Process| program::is_another(&process.in_proc("exe"), programs);
        // What cannot be told is nothing to complain about.
        self.process().is_some_and(|process| another(process).unwrap_or(false))
    }
}
