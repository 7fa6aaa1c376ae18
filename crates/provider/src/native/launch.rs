//! Starts a keeper.

use std::ffi::{CString, OsString};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use whatif_keeper::client::{self, ClientError};
use whatif_keeper::command_line::KEEPER;
use whatif_keeper::protocol::Request;
use whatif_keeper::{Channel, Client};
use whatif_sys::children;
use whatif_sys::holder::Holder;
use whatif_sys::keeper::{self, Program, Start, StartError, Started};
use whatif_sys::process::Process;
use whatif_types::boot::{COMMON_IDS, OWN_IDS};
use whatif_types::{Handle, Identity, SandboxId};

use super::ids::Reserved;
use super::instance::Keeper;
use super::{obstacle, program};
use crate::{Launch, LaunchError, Launched, Launching, Prepared};

/// How what we start is listed among processes: whoever looks at them shall know whose it is.
pub(super) fn called() -> OsString {
    std::env::current_exe().map_or_else(|_| "whatif".into(), PathBuf::into_os_string)
}

pub(super) fn launch(launch: &Launch<'_>) -> Result<Starting, LaunchError> {
    let failed = |step: &'static str| move |source: io::Error| LaunchError::at(step, source);
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .map_err(|e| failed("make a socket")(e.into()))?;
    let arguments = [
        c_string(called().into_vec()).map_err(failed("name the keeper"))?,
        c_string(KEEPER).map_err(failed("name the keeper"))?,
        c_string(launch.id.as_str()).map_err(failed("name the keeper"))?,
        c_string(launch.net.to_string()).map_err(failed("name the keeper"))?,
    ];
    let maps = match launch.identity {
        Identity::Own { uid, gid } => Some((
            c_string(format!("{uid} {uid} 1\n")).map_err(failed("map the user"))?,
            c_string(format!("{gid} {gid} 1\n")).map_err(failed("map the group"))?,
        )),
        _ => None,
    };
    let start = |program: Program<'_>| {
        keeper::start(&Start {
            program,
            arguments: &arguments,
            passed: &[theirs.as_fd()],
            is_expendable: launch.is_expendable,
            own_user_namespace: maps.as_ref().map(|(u, g)| (u.as_c_str(), g.as_c_str())),
        })
    };
    children::collect();
    let mut started = start_one(launch.programs, start);
    if let (Err(error), Identity::Own { .. }) = (&mut started, launch.identity) {
        error.obstacle = obstacle::of(&error.source);
    }
    let started = started?;
    children::leave_alone_by_number(started.pid);
    let process = Process::started(started.pid, started.pidfd);
    // Whoever waits for the keeper must see it if it dies: nobody else may hold its end.
    drop(theirs);
    let birth = Client::over(Channel::new(ours));
    Ok(Starting { id: launch.id.clone(), identity: launch.identity, process: Some(process), birth: Some(birth) })
}

/// A keeper that knows its id and nothing else.
#[derive(Debug)]
pub(super) struct Starting {
    id: SandboxId,
    identity: Identity,
    /// Until it is settled.
    process: Option<Process>,
    birth: Option<Client>,
}

impl Launching for Starting {
    fn id(&self) -> &SandboxId {
        &self.id
    }

    fn settle(mut self: Box<Self>, directory: &Path, alive: BorrowedFd<'_>) -> Result<Launched, LaunchError> {
        let failed = |step: &'static str| move |source: io::Error| LaunchError::at(step, source);
        let listener = client::listener(directory).map_err(|e| failed("listen for clients")(not_bound(e)))?;
        // Nobody else has them as long as the keeper lives.
        let reserved = self.identity.started_by_root().then(|| Reserved::for_sandbox(&self.id));
        let reserved_ids = reserved.as_ref().map(Reserved::base);
        let owner = reserved_ids.unwrap_or(0);
        let identity = match self.identity {
            Identity::Mapped { count, .. } => Identity::Mapped { base: owner, count },
            other => other,
        };
        let ids = reserved.as_ref().and_then(Reserved::lock).unwrap_or(alive);
        // While the keeper loads, the namespaces root's sandboxes need beforehand are made.
        let prepared = Prepared(hold_namespaces(identity, owner).map_err(failed("make the sandbox's namespaces"))?);
        let (Some(process), Some(mut birth)) = (self.process.take(), self.birth.take()) else {
            return Err(failed("settle it")(io::ErrorKind::NotFound.into()));
        };
        // One that ended during its start has said why; that will be the answer to what is sent next.
        let _ = birth.send(&Request::Settle, &[listener.as_fd(), alive, ids]);
        let handle = Handle::new(process.number());
        let instance = Box::new(Keeper::of(self.id.clone(), directory.to_owned(), process));
        Ok(Launched { instance, handle, identity, reserved_ids, birth, prepared })
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        if let Some(process) = &self.process {
            process.kill();
        }
    }
}

/// With the program where it usually is, or from memory.
fn start_one(programs: &Path, start: impl Fn(Program<'_>) -> Result<Started, StartError>) -> Result<Started, LaunchError> {
    let not_started = |error: StartError| LaunchError::at(error.step, error.error);
    let path = match program::provided(programs) {
        Ok(path) => c_string(path.into_os_string().into_vec()),
        // The disk is full or read-only.
        Err(source) => return start_held(&start).map_err(|_| LaunchError::at("put down its program", source)),
    };
    let path = path.map_err(|source| LaunchError::at("use the path of its program", source))?;
    match start(Program::Named(&path)) {
        // It has just gone, or nothing may be executed from there.
        Err(error) if error.lacks_program() || error.refuses_program() => start_held(&start).map_err(|_| not_started(error)),
        started => started.map_err(not_started),
    }
}

fn start_held(start: impl Fn(Program<'_>) -> Result<Started, StartError>) -> Result<Started, StartError> {
    start(Program::Held(program::in_memory().map_err(StartError::of_program)?.as_fd()))
}

/// The directory may be gone by now.
fn not_bound(error: ClientError) -> io::Error {
    match error {
        ClientError::Socket(error) => error,
        ClientError::NotRunning => io::ErrorKind::NotFound.into(),
        other => io::Error::other(other),
    }
}

fn hold_namespaces(identity: Identity, owner: u32) -> io::Result<Option<Holder>> {
    let map = match identity {
        Identity::Own { .. } => return Ok(None),
        Identity::Mapped { base, count } => {
            format!("0 {base} {OWN_IDS}\n{OWN_IDS} {} {}\n", COMMON_IDS + OWN_IDS, count - OWN_IDS)
        }
        Identity::Same => format!("0 0 {}\n", u32::MAX),
    };
    Holder::start(&map, owner).map(Some)
}

fn c_string(text: impl Into<Vec<u8>>) -> io::Result<CString> {
    CString::new(text).map_err(|_| io::ErrorKind::InvalidInput.into())
}
