//! The engine's side of `whatif restack`.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use whatif_keeper::Channel;
use whatif_types::boot::Protection;
use whatif_types::{Boot, Sandbox};

use crate::EngineError;
use crate::inside::restack::{Answer, COMMAND, Held, Order};

/// Mounting takes a moment; entering namespaces of a machine under heavy load may take longer.
const PATIENCE: Duration = Duration::from_secs(20);

/// A process that enters the sandbox. It ends with its last order, and at the latest when it is dropped.
pub(super) struct Helper {
    child: Child,
    channel: Channel,
    user_namespace: OwnedFd,
    mount_namespace: OwnedFd,
    root: OwnedFd,
}

impl Helper {
    /// Starts it for a sandbox that runs.
    pub(super) fn start(sandbox: &Sandbox) -> Result<Self, EngineError> {
        let failed = |e: io::Error| EngineError::io("start a helper for", Path::new(&sandbox.name), e);
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).map_err(|e| failed(e.into()))?;
        set_socket_timeout(&ours, Timeout::Recv, Some(PATIENCE)).map_err(|e| failed(e.into()))?;
        let child = Command::new("/proc/self/exe")
            .arg(COMMAND)
            .env_clear()
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        // The keeper's pid is good as long as somebody is connected to it, which the caller sees to.
        let keeper = sandbox.details.keeper_pid.ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
        let namespace = |kind: &str| File::open(format!("/proc/{keeper}/ns/{kind}")).map(OwnedFd::from).map_err(failed);
        let (user_namespace, mount_namespace) = (namespace("user")?, namespace("mnt")?);
        let root =
            rustix::fs::open(format!("/proc/{keeper}/root"), OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let root = root.map_err(|e| failed(e.into()))?;
        Ok(Self { child, channel: Channel::new(ours), user_namespace, mount_namespace, root })
    }

    /// Sees to it that nobody can write any more. Returns who prevents that.
    pub(super) fn guard(&mut self, boot: &Boot, mind_holders: bool) -> Result<Vec<Held>, EngineError> {
        let order = Order::Guard { boot: Box::new(boot.clone()), mind_holders };
        let descriptors = [self.user_namespace.as_fd(), self.mount_namespace.as_fd(), self.root.as_fd()];
        self.channel.send(&order, &descriptors).map_err(lost)?;
        match self.answer()? {
            Answer::Guarded => Ok(Vec::new()),
            Answer::Held(held) => Ok(held),
            _ => Err(out_of_turn()),
        }
    }

    pub(super) fn prepare(&mut self) -> Result<Protection, EngineError> {
        self.channel.send(&Order::Prepare, &[]).map_err(lost)?;
        match self.answer()? {
            Answer::Prepared { protection } => Ok(protection),
            _ => Err(out_of_turn()),
        }
    }

    pub(super) fn switch(&mut self) -> Result<(), EngineError> {
        self.channel.send(&Order::Switch, &[]).map_err(lost)?;
        match self.answer()? {
            Answer::Done => Ok(()),
            _ => Err(out_of_turn()),
        }
    }

    /// Leaves everything as it was. If it cannot say so any more, it has failed before and has done so by itself.
    pub(super) fn give_up(&mut self) {
        if self.channel.send(&Order::GiveUp, &[]).is_ok() {
            let _ = self.answer();
        }
    }

    fn answer(&mut self) -> Result<Answer, EngineError> {
        match self.channel.receive().map_err(lost)? {
            Answer::Failed(failed) => Err(EngineError::Restack { message: failed.message }),
            answer => Ok(answer),
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // Without orders it ends by itself; one that hangs must not be waited for.
        let _ = rustix::net::shutdown(self.channel.as_fd(), rustix::net::Shutdown::Both);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lost(error: whatif_keeper::ChannelError) -> EngineError {
    EngineError::Restack { message: format!("the helper was lost: {error}") }
}

fn out_of_turn() -> EngineError {
    EngineError::Restack { message: "the helper answered out of turn".to_owned() }
}
