//! The native provider: Linux namespaces, capabilities, seccomp and Landlock. No root, container engine or daemon needed.
//!
//! `launch` runs outside; `join` and `confine` run inside the keeper, before and after the sandbox's view is put together.

mod confine;
pub mod ids;
mod join;
pub mod network;

use std::ffi::CString;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStringExt;

use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use whatif_sys::children;
use whatif_sys::holder::Holder;
use whatif_sys::keeper::{self, Start};
use whatif_types::Identity;
use whatif_types::boot::{COMMON_IDS, OWN_IDS};

pub use self::confine::{Confinement, confine};
use self::ids::Reserved;
pub use self::join::{Prepared, bound_own_namespace, enter_user_namespace, join, join_user_namespace, make_network};
use crate::{Launch, LaunchError, Launched, Provider};
pub use whatif_sys::landlock::Reach;

pub const NAME: &str = "native";
/// How the command line of a keeper begins after the program: `whatif keeper <id> <network>`.
pub const KEEPER_COMMAND: &str = "keeper";
/// What a sandbox of root is, before it has ids of its own.
pub const MAPPED: Identity = Identity::Mapped { base: COMMON_IDS, count: COUNT };
const COUNT: u32 = 0x0F00_0000;

#[derive(Debug)]
pub struct Native;

impl Provider for Native {
    fn name(&self) -> &'static str {
        NAME
    }

    fn launch(&self, launch: &Launch<'_>) -> Result<Launched, LaunchError> {
        let failed = |step: &'static str| move |source: io::Error| LaunchError { step, source };
        let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)
            .map_err(|e| failed("make a socket")(e.into()))?;
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
            passed: &[
                theirs.as_fd(),
                launch.listener,
                launch.alive,
                reserved.as_ref().and_then(|r| r.lock()).unwrap_or(launch.alive),
            ],
            own_user_namespace: maps.as_ref().map(|(u, g)| (u.as_c_str(), g.as_c_str())),
        };
        children::collect();
        let started = keeper::start(&start).map_err(|e| LaunchError { step: e.step, source: e.error })?;
        children::leave_alone(started.pid);
        // Whoever waits for the keeper must see it if it dies: nobody else may hold its end.
        drop(theirs);
        // While the keeper loads, the namespaces root's sandboxes need beforehand are made.
        let holder = hold_namespaces(identity, owner).map_err(failed("make the sandbox's namespaces"));
        if holder.is_err() {
            let _ = rustix::process::pidfd_send_signal(&started.pidfd, rustix::process::Signal::KILL);
        }
        let pid = started.pid.as_raw_nonzero().get().unsigned_abs();
        Ok(Launched { pid, pidfd: started.pidfd, identity, reserved_ids, birth: ours, holder: holder? })
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
