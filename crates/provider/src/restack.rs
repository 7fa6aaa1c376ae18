//! An instance that is being put on other layers while it lives.
//!
//! A helper does it, because the keeper may not mount any more. It is told step by step, so that the engine can write down in between
//! what has become true. What the helper does at each step is not known here: the engine has the other end of the orders.

use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::process::Child;

use whatif_keeper::protocol::{Answer, Order};
use whatif_keeper::{Channel, ChannelError, Client};
use whatif_sys::children;
use whatif_types::Boot;
use whatif_types::boot::Protection;

use crate::RestackError;

/// A helper that has not been told yet which instance it is for. It ends when it is dropped.
#[derive(Debug)]
#[must_use]
pub struct Restacker {
    /// None once it is left alone.
    child: Option<Child>,
    pub(crate) channel: Channel,
}

impl Restacker {
    pub(crate) fn over(channel: Channel, child: Child) -> Self {
        Self { child: Some(child), channel }
    }

    /// Sends it into an instance, without waiting until it is there.
    pub(crate) fn enter(mut self, boot: &Boot, way_in: &[BorrowedFd<'_>]) -> Result<Restacking, ChannelError> {
        self.channel.send(&Order::Enter { boot: Box::new(boot.clone()) }, way_in)?;
        Ok(Restacking { helper: self, has_begun: false, has_failed: false })
    }
}

impl Drop for Restacker {
    fn drop(&mut self) {
        // Without orders it ends by itself.
        if let Some(mut child) = self.child.take() {
            let _ = rustix::net::shutdown(self.channel.as_fd(), rustix::net::Shutdown::Both);
            let _ = child.wait();
        }
    }
}

/// A helper on its way into an instance.
#[derive(Debug)]
#[must_use]
pub struct Restacking {
    helper: Restacker,
    /// It was told to keep everybody from writing.
    has_begun: bool,
    /// It has said so.
    has_failed: bool,
}

impl Restacking {
    /// Sees to it that nobody can write any more. Returns the tree that somebody writes to, if so.
    pub fn guard(&mut self) -> Result<Option<PathBuf>, RestackError> {
        self.has_begun = true;
        // One that has failed to enter does not listen any more, but has said why.
        let _ = self.helper.channel.send(&Order::Guard, &[]);
        match self.answer()? {
            Answer::Guarded => Ok(None),
            Answer::Busy(tree) => Ok(Some(tree.to_path())),
            _ => Err(RestackError::of_helper("the helper answered out of turn")),
        }
    }

    /// Lets it put the instance on its new layers by itself. Until then that is held still by the connection to its keeper, and locked
    /// by whatever else is `held`: the helper gets them all. If it fails, the sandbox is found stopped. `None`: nobody is there to do
    /// it.
    pub fn finish(mut self, known: &Protection, keeper: &Client, held: &[BorrowedFd<'_>]) -> Option<Finishing> {
        let descriptors: Vec<BorrowedFd<'_>> = [keeper.as_fd()].iter().chain(held).copied().collect();
        self.helper.channel.send(&Order::Finish { protection: known.clone() }, &descriptors).ok()?;
        Some(Finishing { child: self.helper.child.take() })
    }

    /// Leaves everything as it was. False if nobody can tell that it is: then trees may have stayed read-only.
    #[must_use]
    pub fn give_up(&mut self) -> bool {
        // One that reports a failure has cleaned up before, and one that was not told to guard has done nothing.
        self.has_failed
            || !self.has_begun
            || (self.helper.channel.send(&Order::GiveUp, &[]).is_ok() && matches!(self.answer(), Ok(Answer::GivenUp)))
    }

    fn answer(&mut self) -> Result<Answer, RestackError> {
        match self.helper.channel.receive()? {
            Answer::Failed(failed) => {
                self.has_failed = true;
                Err(RestackError { message: failed.message, errno: Some(failed.errno) })
            }
            answer => Ok(answer),
        }
    }
}

/// A helper that finishes by itself.
#[derive(Debug)]
#[must_use]
pub struct Finishing {
    child: Option<Child>,
}

impl Finishing {
    /// Waits until the instance stands on its new layers.
    pub fn wait(mut self) -> Result<(), RestackError> {
        let ended = self.child.take().map_or(Ok(true), |mut child| child.wait().map(|status| status.success()));
        match ended {
            Ok(true) => Ok(()),
            _ => Err(RestackError::of_helper("the helper failed; the sandbox was stopped")),
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
