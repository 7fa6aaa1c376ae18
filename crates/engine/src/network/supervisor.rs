//! The process that supervises a sandbox's network: what `whatif supervisor <id>` does.

use std::os::fd::OwnedFd;

use serde::{Deserialize, Serialize};
use whatif_keeper::Channel;
use whatif_types::network::Instructions;

pub use super::supervise::COMMAND;

/// What a supervisor says when it has read its instructions.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Ready {
    Serving,
    Failed(String),
}

/// Does what it is told on this socket until the sandbox is gone.
pub fn serve(input: OwnedFd) -> std::io::Result<()> {
    // No terminal's signals are for it. It leads no group yet, so this works.
    let _ = rustix::process::setsid();
    let _ = rustix::thread::set_name(c"whatif-network");
    let mut channel = Channel::new(input);
    let instructions: Instructions = channel.receive().map_err(std::io::Error::other)?;
    let descriptors: Vec<OwnedFd> = std::iter::from_fn(|| channel.take_descriptor()).collect();
    let channel = std::cell::RefCell::new(Some(channel));
    let say = |ready: Ready| {
        if let Some(mut channel) = channel.take() {
            let _ = channel.send(&ready, &[]);
        }
    };
    let served = whatif_supervisor::serve(instructions, descriptors, || say(Ready::Serving));
    if let Err(error) = &served {
        say(Ready::Failed(error.to_string()));
    }
    served
}
