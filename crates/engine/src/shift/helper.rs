//! The engine's side of `whatif restack`.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use whatif_keeper::Channel;
use whatif_types::Boot;
use whatif_types::boot::Protection;

use crate::EngineError;
use crate::inside::restack::{Answer, COMMAND, Order};

/// Mounting takes a moment; entering namespaces of a machine under heavy load may take longer.
const PATIENCE: Duration = Duration::from_secs(20);

/// A process that enters the sandbox. It ends with its last order.
pub(crate) struct Helper {
    child: Child,
    channel: Channel,
    /// It was told to enter the sandbox.
    has_begun: bool,
    is_done: bool,
    /// It has said so.
    has_failed: bool,
}

impl Helper {
    /// Starts it, to be told later what it is for: loading takes as long as most of what it will do.
    pub(crate) fn start() -> Result<Self, EngineError> {
        let failed = |e: io::Error| EngineError::Restack { message: format!("a helper cannot be started: {e}") };
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
        Ok(Self { child, channel: Channel::new(ours), has_begun: false, is_done: false, has_failed: false })
    }

    /// Sees to it that nobody can write any more. Returns the tree that somebody writes to, if so. The keeper's pid is good as long as somebody is
    /// connected to it, which the caller is.
    pub(super) fn guard(&mut self, keeper: u32, boot: &Boot) -> Result<Option<PathBuf>, EngineError> {
        let place = format!("/proc/{keeper}");
        let failed = |e: io::Error| EngineError::io("enter the namespaces of", Path::new(&place), e);
        let namespace = |kind: &str| File::open(format!("{place}/ns/{kind}")).map(OwnedFd::from).map_err(failed);
        let (user, mount) = (namespace("user")?, namespace("mnt")?);
        let root = rustix::fs::open(format!("{place}/root"), OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let root = root.map_err(|e| failed(e.into()))?;
        let order = Order::Guard { boot: Box::new(boot.clone()) };
        self.has_begun = true;
        self.channel.send(&order, &[user.as_fd(), mount.as_fd(), root.as_fd()]).map_err(lost)?;
        match self.answer()? {
            Answer::Guarded => Ok(None),
            Answer::Busy(tree) => Ok(Some(tree.to_path())),
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
            Answer::Done => {
                self.is_done = true;
                Ok(())
            }
            _ => Err(out_of_turn()),
        }
    }

    /// Leaves everything as it was. False if nobody can tell that it is: then trees may have stayed read-only.
    pub(super) fn give_up(&mut self) -> bool {
        // One that reports a failure has cleaned up before, and one without orders has done nothing.
        self.has_failed
            || !self.has_begun
            || (self.channel.send(&Order::GiveUp, &[]).is_ok() && matches!(self.answer(), Ok(Answer::Done)))
    }

    fn answer(&mut self) -> Result<Answer, EngineError> {
        match self.channel.receive().map_err(lost)? {
            Answer::Failed(failed) => {
                self.has_failed = true;
                Err(EngineError::Restack { message: failed.message })
            }
            answer => Ok(answer),
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // Without orders it ends by itself. Having done its work it makes something for the next one, which nobody waits for.
        let _ = rustix::net::shutdown(self.channel.as_fd(), rustix::net::Shutdown::Both);
        if !self.is_done {
            let _ = self.child.wait();
        }
    }
}

fn lost(error: whatif_keeper::ChannelError) -> EngineError {
    EngineError::Restack { message: format!("the helper was lost: {error}") }
}

fn out_of_turn() -> EngineError {
    EngineError::Restack { message: "the helper answered out of turn".to_owned() }
}
