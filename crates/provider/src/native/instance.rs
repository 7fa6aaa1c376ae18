//! A keeper that runs, or ran when its record was written.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use whatif_cgroup::Site;
use whatif_keeper::Client;
use whatif_keeper::client::ClientError;
use whatif_keeper::protocol;
use whatif_sys::process::Process;
use whatif_types::{Handle, SandboxId};

use super::{KEEPER_COMMAND, command_lines};
use crate::{Entrance, Instance, Launch, Whereabouts};

/// How the kernel marks the path of something that is deleted.
pub(super) const DELETED: &str = " (deleted)";

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

    /// One that we have just started.
    pub(super) fn started(launch: &Launch<'_>, process: Process) -> Self {
        Self::of(launch.id.clone(), launch.directory.to_owned(), process)
    }

    pub(super) fn of(id: SandboxId, directory: PathBuf, process: Process) -> Self {
        Self { id, directory, handle: Some(Handle::new(process.number())), process: OnceLock::from(Some(process)) }
    }

    fn process(&self) -> Option<&Process> {
        let find = || Process::find(self.handle?.number(), KEEPER_COMMAND, self.id.as_str());
        self.process.get_or_init(find).as_ref()
    }

    fn living(&self) -> io::Result<&Process> {
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

    fn entrance(&self) -> io::Result<Entrance> {
        let process = self.living()?;
        let namespace = |kind: &str| File::open(process.in_proc(kind)).map(OwnedFd::from);
        let (user, mount) = (namespace("ns/user")?, namespace("ns/mnt")?);
        Ok(Entrance { user, mount, root: self.view()? })
    }

    /// Below the keeper's own group: what holds for that goes on holding.
    fn freezer_site(&self) -> Option<Site> {
        Site::look(self.process()?.pid()).ok()
    }

    fn complete(&self, processes: &mut [protocol::Process]) {
        if let Some(process) = self.process() {
            command_lines::fill_in(process.number(), processes);
        }
    }

    fn is_outdated(&self) -> bool {
        let executable = self.process().and_then(|process| fs::read_link(process.in_proc("exe")).ok());
        executable.is_some_and(|path| path.to_string_lossy().ends_with(DELETED))
    }
}
