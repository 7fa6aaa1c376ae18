//! What can go wrong inside, and how it is told.

use std::io;

use whatif_keeper::ChannelError;
use whatif_keeper::protocol::{Failed, Reason};
use whatif_keeper::stream::StreamError;
use whatif_layers::assemble::{AssembleError, Cause};

pub(crate) fn not_assembled(error: &AssembleError) -> Failed {
    let reason = match error.cause {
        Cause::IdMapping => Reason::BootIdMapping,
        Cause::Layers => Reason::BootLayers,
        Cause::Other => Reason::Boot,
    };
    Failed { reason, ..failed(&error.step, &error.source) }
}

pub(crate) fn failed(step: &str, error: &io::Error) -> Failed {
    Failed { reason: Reason::Boot, message: format!("failed to {step}: {error}"), errno: error.raw_os_error().unwrap_or(0) }
}

#[derive(Debug, thiserror::Error)]
pub enum KeeperError {
    #[error("a keeper is started by whatif itself, not by hand")]
    NotABoot,
    #[error("the sandbox could not be set up")]
    Told,
    #[error(transparent)]
    Channel(#[from] ChannelError),
    #[error(transparent)]
    Stream(#[from] StreamError),
    #[error("failed to {step}")]
    Furnish { step: &'static str, source: io::Error },
    #[error("only PID 1 is an init: as any other process it would end those of its user")]
    NotInit,
    #[error(transparent)]
    Io(#[from] io::Error),
}
