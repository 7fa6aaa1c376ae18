//! Starts the helper that puts a living instance on other layers, and opens the way in for it.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use whatif_keeper::Channel;
use whatif_keeper::command_line::RESTACK;
use whatif_sys::children;
use whatif_types::Boot;

use super::instance::Keeper;
use super::launch::called;
use super::program;
use crate::{Instance, RestackError, Restacker, Restacking};

/// Mounting takes a moment; entering namespaces of a machine under heavy load may take longer.
const PATIENCE: Duration = Duration::from_secs(20);

pub(super) fn start(programs: &Path) -> io::Result<Restacker> {
    children::collect();
    let (ours, theirs) = socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    set_socket_timeout(&ours, Timeout::Recv, Some(PATIENCE))?;
    let child = program::provided(programs).and_then(|program| spawn(&program, &theirs));
    let child = child.or_else(|_| {
        let held = program::in_memory()?;
        spawn(Path::new(&format!("/proc/self/fd/{}", held.as_raw_fd())), &theirs)
    })?;
    Ok(Restacker::over(Channel::new(ours), child))
}

fn spawn(program: &Path, orders: &OwnedFd) -> io::Result<Child> {
    Command::new(program)
        .arg0(called())
        .arg(RESTACK)
        .env_clear()
        // It may have something to finish when we are interrupted.
        .process_group(0)
        .stdin(Stdio::from(orders.try_clone()?))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

impl Keeper {
    /// In the order in which `inside::Entrance` takes them.
    pub(super) fn send_in(&self, helper: Restacker, boot: &Boot) -> Result<Restacking, RestackError> {
        let way_in = self.way_in().map_err(|error| RestackError::not_entered(&boot.directory, &error))?;
        Ok(helper.enter(boot, &way_in.each_ref().map(AsFd::as_fd))?)
    }

    fn way_in(&self) -> io::Result<[OwnedFd; 3]> {
        let process = self.living()?;
        let namespace = |kind: &str| File::open(process.in_proc(kind)).map(OwnedFd::from);
        let (user, mount) = (namespace("ns/user")?, namespace("ns/mnt")?);
        Ok([user, mount, self.view()?])
    }
}
