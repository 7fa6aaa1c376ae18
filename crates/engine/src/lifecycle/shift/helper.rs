//! The engine's side of `whatif restack`.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use whatif_keeper::{Channel, Client};
use whatif_layers::shift::Unfinished;
use whatif_layers::state_dir::SandboxLock;
use whatif_provider::{Entrance, Instance};
use whatif_sys::children;
use whatif_types::Boot;
use whatif_types::boot::Protection;

use crate::EngineError;
use crate::inside::restack::{Answer, COMMAND, Order};

/// Mounting takes a moment; entering namespaces of a machine under heavy load may take longer.
const PATIENCE: Duration = Duration::from_secs(20);

/// A process that enters the sandbox. It ends with its last order.
pub(crate) struct Helper {
    /// None once it is left alone.
    child: Option<Child>,
    channel: Channel,
    /// It was told to keep everybody from writing.
    has_begun: bool,
    /// It has said so.
    has_failed: bool,
}

impl Helper {
    /// Starts it, to be told later what it is for: loading takes as long as most of what it will do.
    pub(crate) fn start() -> Result<Self, EngineError> {
        children::collect();
        let failed = |source: io::Error| EngineError::Helper { source };
        let (ours, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).map_err(|e| failed(e.into()))?;
        set_socket_timeout(&ours, Timeout::Recv, Some(PATIENCE)).map_err(|e| failed(e.into()))?;
        // Whoever lists processes shall know whose it is.
        let name = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("whatif"));
        let child = Command::new("/proc/self/exe")
            .arg0(name)
            .arg(COMMAND)
            .env_clear()
            // It may have something to finish when we are interrupted.
            .process_group(0)
            .stdin(Stdio::from(theirs))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        Ok(Self { child: Some(child), channel: Channel::new(ours), has_begun: false, has_failed: false })
    }

    /// Sends it into the sandbox, without waiting until it is there.
    pub(super) fn enter(&mut self, sandbox: &dyn Instance, boot: &Boot) -> Result<(), EngineError> {
        let failed = |e: io::Error| EngineError::io("enter the sandbox in", &boot.directory, e);
        let Entrance { user, mount, root } = sandbox.entrance().map_err(failed)?;
        let order = Order::Enter { boot: Box::new(boot.clone()) };
        self.channel.send(&order, &[&user, &mount, &root].map(AsFd::as_fd)).map_err(lost)
    }

    /// Sees to it that nobody can write any more. Returns the tree that somebody writes to, if so.
    pub(super) fn guard(&mut self) -> Result<Option<PathBuf>, EngineError> {
        self.has_begun = true;
        // One that has failed to enter does not listen any more, but has said why.
        let _ = self.channel.send(&Order::Guard, &[]);
        match self.answer()? {
            Answer::Guarded => Ok(None),
            Answer::Busy(tree) => Ok(Some(tree.to_path())),
            _ => Err(out_of_turn()),
        }
    }

    /// Lets it put the sandbox on its new layers by itself. Until then the sandbox is held still and locked, by the descriptors that
    /// it gets of both; if it fails, the sandbox is found stopped. `None`: nobody is there to do it.
    pub(super) fn finish(
        mut self,
        known: &Protection,
        keeper: &Client,
        lock: &SandboxLock,
        shift: &Unfinished,
    ) -> Option<Finishing> {
        let [transient, sandbox, note] = shift.descriptors();
        let order = Order::Finish { protection: known.clone() };
        self.channel.send(&order, &[keeper.as_fd(), lock.as_fd(), transient, sandbox, note]).ok()?;
        Some(Finishing { child: self.child.take() })
    }

    /// Leaves everything as it was. False if nobody can tell that it is: then trees may have stayed read-only.
    pub(super) fn give_up(&mut self) -> bool {
        // One that reports a failure has cleaned up before, and one that was not told to guard has done nothing.
        self.has_failed
            || !self.has_begun
            || (self.channel.send(&Order::GiveUp, &[]).is_ok() && matches!(self.answer(), Ok(Answer::GivenUp)))
    }

    fn answer(&mut self) -> Result<Answer, EngineError> {
        match self.channel.receive().map_err(lost)? {
            Answer::Failed(failed) => {
                self.has_failed = true;
                Err(EngineError::Restack { message: failed.message, errno: Some(failed.errno) })
            }
            answer => Ok(answer),
        }
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        // Without orders it ends by itself.
        if let Some(mut child) = self.child.take() {
            let _ = rustix::net::shutdown(self.channel.as_fd(), rustix::net::Shutdown::Both);
            let _ = child.wait();
        }
    }
}

/// A helper that finishes by itself.
#[derive(Debug)]
#[must_use]
pub(crate) struct Finishing {
    child: Option<Child>,
}

impl Finishing {
    /// Waits until the sandbox stands on its new layers.
    pub(crate) fn wait(mut self) -> Result<(), EngineError> {
        let ended = self.child.take().map_or(Ok(true), |mut child| child.wait().map(|status| status.success()));
        match ended {
            Ok(true) => Ok(()),
            _ => Err(EngineError::Restack { message: "the helper failed; the sandbox was stopped".to_owned(), errno: None }),
        }
    }
}

impl Drop for Finishing {
    fn drop(&mut self) {
        if let Some(child) = self.child.take() {
            children::leave_alone(&child);
        }
    }
}

fn lost(error: whatif_keeper::ChannelError) -> EngineError {
    EngineError::Restack { message: format!("the helper was lost: {error}"), errno: None }
}

fn out_of_turn() -> EngineError {
    EngineError::Restack { message: "the helper answered out of turn".to_owned(), errno: None }
}
