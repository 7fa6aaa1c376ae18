//! Starts a keeper.

use std::ffi::CString;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use whatif_keeper::client::{self, ClientError};
use whatif_keeper::{Channel, Client};
use whatif_sys::children;
use whatif_sys::holder::Holder;
use whatif_sys::keeper::{self, Start};
use whatif_sys::process::Process;
use whatif_types::boot::{COMMON_IDS, OWN_IDS};
use whatif_types::{Handle, Identity};

use super::KEEPER_COMMAND;
use super::ids::Reserved;
use super::instance::Keeper;
use crate::{Launch, LaunchError, Launched, Prepared};

pub(super) fn launch(launch: &Launch<'_>) -> Result<Launched, LaunchError> {
    let failed = |step: &'static str| move |source: io::Error| LaunchError { step, source };
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
        .map_err(|e| failed("make a socket")(e.into()))?;
    let listener = client::listener(launch.directory).map_err(|e| failed("listen for clients")(not_bound(e)))?;
    let executable = std::env::current_exe().map_err(failed("find the whatif binary"))?;
    let executable = c_string(executable.into_os_string().into_vec()).map_err(failed("use the path of the whatif binary"))?;
    let arguments = [
        executable.clone(),
        c_string(KEEPER_COMMAND).map_err(failed("name the keeper"))?,
        c_string(launch.id.as_str()).map_err(failed("name the keeper"))?,
        c_string(launch.net.to_string()).map_err(failed("name the keeper"))?,
    ];
    // Nobody else has them as long as the keeper lives.
    let reserved = launch.identity.started_by_root().then(|| Reserved::for_sandbox(launch.id));
    let reserved_ids = reserved.as_ref().map(Reserved::base);
    let owner = reserved_ids.unwrap_or(0);
    let identity = match launch.identity {
        Identity::Mapped { count, .. } => Identity::Mapped { base: owner, count },
        other => other,
    };
    let maps = match launch.identity {
        Identity::Own { uid, gid } => Some((
            c_string(format!("{uid} {uid} 1\n")).map_err(failed("map the user"))?,
            c_string(format!("{gid} {gid} 1\n")).map_err(failed("map the group"))?,
        )),
        _ => None,
    };
    let start = Start {
        executable: &executable,
        arguments: &arguments,
        passed: &[theirs.as_fd(), listener.as_fd(), launch.alive, reserved.as_ref().and_then(|r| r.lock()).unwrap_or(launch.alive)],
        own_user_namespace: maps.as_ref().map(|(u, g)| (u.as_c_str(), g.as_c_str())),
    };
    children::collect();
    let started = keeper::start(&start).map_err(|e| LaunchError { step: e.step, source: e.error })?;
    children::leave_alone_by_number(started.pid);
    let process = Process::started(started.pid, started.pidfd);
    // Whoever waits for the keeper must see it if it dies: nobody else may hold its end.
    drop(theirs);
    // While the keeper loads, the namespaces root's sandboxes need beforehand are made.
    let prepared = hold_namespaces(identity, owner).map_err(failed("make the sandbox's namespaces")).map(Prepared);
    if prepared.is_err() {
        process.kill();
    }
    let birth = Client::over(Channel::new(ours));
    let handle = Handle::new(process.number());
    let instance = Box::new(Keeper::started(launch, process));
    Ok(Launched { instance, handle, identity, reserved_ids, birth, prepared: prepared? })
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
