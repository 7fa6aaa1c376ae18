//! What `whatif restack` does: the helper that puts a running sandbox on other layers. See `whatif_layers::assemble::restack`.
//!
//! It is told step by step over its standard input, so that the engine can write down in between what has become true.

use std::os::fd::{AsFd, OwnedFd};

use serde::{Deserialize, Serialize};
use whatif_keeper::protocol::{Failed, Text};
use whatif_keeper::{Channel, ChannelError};
use whatif_layers::assemble::restack::{Namespaces, Restack};
use whatif_provider::native;
use whatif_types::Boot;
use whatif_types::boot::Protection;

use super::{KeeperError, failed, not_assembled};

/// How the helper's command line begins after the program.
pub const COMMAND: &str = "restack";

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// Enter the sandbox and see to it that nobody can write to its trees any more. The user and the mount namespace of the
    /// sandbox and its root come along as descriptors.
    Guard { boot: Box<Boot> },
    /// Put the new root together.
    Prepare,
    /// Make it the root.
    Switch,
    /// Leave everything as it was.
    GiveUp,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Answer {
    Guarded,
    /// Nothing was changed, because somebody writes to this tree.
    Busy(Text),
    Prepared {
        protection: Protection,
    },
    Done,
    Failed(Failed),
}

/// Follows orders until the last one.
pub fn serve(input: OwnedFd) -> Result<(), KeeperError> {
    let mut channel = Channel::new(input);
    let Order::Guard { boot } = channel.receive()? else { return Err(KeeperError::NotABoot) };
    let mut descriptor = || channel.take_descriptor().ok_or(KeeperError::NotABoot);
    let (user, mount, root) = (descriptor()?, descriptor()?, descriptor()?);
    let sandbox = Namespaces { user: user.as_fd(), mount: mount.as_fd(), root: root.as_fd() };
    let outcome = follow(&mut channel, &boot, sandbox);
    match outcome {
        Err(Trouble::Failed(failed)) => {
            channel.send(&Answer::Failed(failed), &[])?;
            Err(KeeperError::Told)
        }
        Err(Trouble::Channel(error)) => Err(error.into()),
        Ok(()) => Ok(()),
    }
}

enum Trouble {
    Failed(Failed),
    Channel(ChannelError),
}

impl From<ChannelError> for Trouble {
    fn from(error: ChannelError) -> Self {
        Self::Channel(error)
    }
}

fn follow(channel: &mut Channel, boot: &Boot, sandbox: Namespaces<'_>) -> Result<(), Trouble> {
    let trouble = |error: &whatif_layers::assemble::AssembleError| Trouble::Failed(not_assembled(error));
    if !boot.identity.started_by_root() {
        native::enter_user_namespace(sandbox.user)
            .map_err(|e| Trouble::Failed(failed("enter the sandbox's user namespace", &e)))?;
    }
    let mut restack = Restack::enter(boot, sandbox).map_err(|e| trouble(&e))?;
    if let Some(busy) = restack.guard().map_err(|e| trouble(&e))? {
        return Ok(channel.send(&Answer::Busy(Text::from(busy.as_path())), &[])?);
    }
    channel.send(&Answer::Guarded, &[])?;

    // Most of the way to a new root does not depend on what becomes of the head.
    if let Err(error) = restack.set_stage() {
        restack.give_up();
        return Err(trouble(&error));
    }
    let mut ready = None;
    loop {
        match channel.receive()? {
            Order::Prepare => match restack.prepare() {
                Ok((root, protection)) => {
                    channel.send(&Answer::Prepared { protection: protection.clone() }, &[])?;
                    ready = Some((root, protection));
                }
                Err(error) => {
                    restack.give_up();
                    return Err(trouble(&error));
                }
            },
            Order::Switch => {
                let Some((root, protection)) = &ready else { return Err(Trouble::Channel(ChannelError::Closed)) };
                restack.switch(root, protection).map_err(|e| trouble(&e))?;
                channel.send(&Answer::Done, &[])?;
                restack.lay_up();
                return Ok(());
            }
            Order::GiveUp | Order::Guard { .. } => {
                restack.give_up();
                return Ok(channel.send(&Answer::Done, &[])?);
            }
        }
    }
}
