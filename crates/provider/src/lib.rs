//! Providers: how the processes of a sandbox are isolated over its stack of layers.
//!
//! A provider starts a keeper somewhere and, inside, confines it. What the keeper sees and how one talks to it is not known here.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod native;

use std::os::fd::{BorrowedFd, OwnedFd};

use whatif_sys::holder::Holder;
use whatif_types::explain::kind_of;
use whatif_types::remedy::{Call, Mention};
use whatif_types::{Explain, Identity, Kind, NetMode, Remedy, SandboxId, remedy};

/// What a provider needs to know to start a keeper.
#[derive(Debug)]
pub struct Launch<'a> {
    pub id: &'a SandboxId,
    /// Of a mapped one the provider chooses the base.
    pub identity: Identity,
    pub net: NetMode,
    /// Where the keeper will listen; it inherits this.
    pub listener: BorrowedFd<'a>,
    /// A lock that it inherits and holds as long as it lives.
    pub alive: BorrowedFd<'a>,
}

/// A keeper that has started and waits to be told what to become.
#[derive(Debug)]
pub struct Launched {
    pub pid: u32,
    pub pidfd: OwnedFd,
    pub identity: Identity,
    /// The first of the ids outside that no other sandbox of root has while it runs.
    pub reserved_ids: Option<u32>,
    /// Our end of the socket it was born with.
    pub birth: OwnedFd,
    /// Holds namespaces made beforehand; to be kept until the keeper has joined them.
    pub holder: Option<Holder>,
}

/// One way of isolating processes. The caller owns the returned keeper: dropping `Launched` does not end it.
pub trait Provider: std::fmt::Debug {
    fn name(&self) -> &'static str;
    /// Starts a keeper. On error nothing is left running.
    fn launch(&self, launch: &Launch<'_>) -> Result<Launched, LaunchError>;
}

/// The provider of that name.
pub fn by_name(name: &str) -> Result<Box<dyn Provider>, UnknownProvider> {
    match name {
        native::NAME => Ok(Box::new(native::Native)),
        other => Err(UnknownProvider { name: other.to_owned() }),
    }
}

#[derive(Debug, thiserror::Error)]
#[error("failed to start a keeper: cannot {step}")]
pub struct LaunchError {
    pub step: &'static str,
    #[source]
    pub source: std::io::Error,
}

impl Explain for LaunchError {
    fn code(&self) -> &'static str {
        "keeper_start_failed"
    }

    fn kind(&self) -> Kind {
        kind_of(&self.source)
    }

    fn remedies(&self) -> Vec<Remedy> {
        vec![remedy![Mention(Call::Doctor), " tests each thing a sandbox needs and says how to fix what is missing"]]
    }
}

#[derive(Debug, thiserror::Error)]
#[error("there is no provider called '{name}'")]
pub struct UnknownProvider {
    name: String,
}

impl Explain for UnknownProvider {
    fn code(&self) -> &'static str {
        "unknown_provider"
    }

    fn kind(&self) -> Kind {
        Kind::Invalid
    }

    fn remedies(&self) -> Vec<Remedy> {
        vec![format!("available: {}", native::NAME).into()]
    }
}
