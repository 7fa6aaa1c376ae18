//! Ports of the host's loopback that lead inside.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::OwnedFd;

use whatif_types::network::Publish;

use crate::EngineError;

/// Bound before anything runs, so that a port that is taken is no surprise later.
#[derive(Debug, Default)]
pub(crate) struct Published(pub Vec<(Publish, OwnedFd)>);

impl Published {
    pub fn bind(wanted: &[Publish]) -> Result<Self, EngineError> {
        wanted.iter().map(bind).collect::<Result<_, _>>().map(Self)
    }

    pub fn bind_those_free(wanted: &[Publish]) -> Self {
        Self(wanted.iter().filter_map(|publish| bind(publish).ok()).collect())
    }

    /// What became of the wish: ports that were left open have a number now.
    pub fn numbers(&self) -> Vec<Publish> {
        self.0.iter().map(|(publish, _)| *publish).collect()
    }
}

fn bind(publish: &Publish) -> Result<(Publish, OwnedFd), EngineError> {
    let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, publish.host)).and_then(|listener| Ok((listener.local_addr()?, listener)));
    let (address, listener) = bound.map_err(|error| explain(publish, &error))?;
    Ok((Publish { host: address.port(), inside: publish.inside }, listener.into()))
}

fn explain(publish: &Publish, error: &io::Error) -> EngineError {
    EngineError::Usage {
        message: format!("port {} of this machine cannot be used: {error}", publish.host),
        hint: format!("use another one: {}:{}, or 0:{} for any that is free", other(publish.host), publish.inside, publish.inside),
    }
}

/// A number that looks like the one that is taken.
fn other(port: u16) -> u32 {
    if port < 1024 { 8000 + u32::from(port) } else { u32::from(port.wrapping_add(1)) }
}
