//! Ports of the host's loopback that lead inside.

use std::net::{Ipv4Addr, TcpListener};
use std::os::fd::OwnedFd;

use whatif_types::network::Publish;
use whatif_types::{NetMode, Sandbox, Selector, Status};

use super::control::refused;
use crate::EngineError;
use crate::network::{Network, NetworkMisuse};

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

impl Network {
    /// Ports that somebody else had may be free by now.
    pub(crate) fn publish_missing(&self, sandbox: &Sandbox) {
        for (publish, listener) in Published::bind_those_free(&self.missing_ports(sandbox)).0 {
            // `missing_ports` tells if that does not work.
            let _ = self.control(sandbox).map(|mut control| control.publish(publish.inside, &listener));
        }
    }

    /// Takes a port back.
    pub fn unpublish(&self, which: &Selector, inside: u16) -> Result<Sandbox, EngineError> {
        let sandbox = self.ground.resolve(which)?;
        let _lock = self.ground.lock(&sandbox)?;
        let mut sandbox = self.ground.refresh(&sandbox)?;
        let known = sandbox.details.network.publish.len();
        sandbox.details.network.publish.retain(|publish| publish.inside != inside);
        if sandbox.details.network.publish.len() == known {
            return Err(NetworkMisuse::NotPublished { sandbox: sandbox.name, inside }.into());
        }
        self.ground.store.update(&mut sandbox)?;
        if sandbox.status == Status::Active {
            self.ground.publish(&sandbox);
            // Not published by this supervisor: just as well.
            let _ = self.control(&sandbox).map(|mut control| control.unpublish(inside));
        }
        Ok(sandbox)
    }

    /// Ports of a running sandbox that lead nowhere: somebody else had them when its supervisor was started.
    #[must_use]
    pub fn missing_ports(&self, sandbox: &Sandbox) -> Vec<Publish> {
        let wanted = &sandbox.details.network.publish;
        if wanted.is_empty() || sandbox.status != Status::Active {
            return Vec::new();
        }
        let status = self.control(sandbox).ok().and_then(|mut control| control.status().ok());
        let served = status.map(|status| status.published).unwrap_or_default();
        let is_served =
            |publish: &Publish| served.iter().any(|port| (port.inside, port.at.port()) == (publish.inside, publish.host));
        wanted.iter().filter(|publish| !is_served(publish)).copied().collect()
    }

    /// The ports of the host that lead inside; with one more if asked for.
    pub fn ports(&self, which: &Selector, wanted: Option<Publish>) -> Result<(Sandbox, Vec<Publish>), EngineError> {
        let sandbox = self.ground.resolve(which)?;
        let Some(wanted) = wanted else {
            let ports = sandbox.details.network.publish.clone();
            return Ok((sandbox, ports));
        };
        if sandbox.details.net == NetMode::Host {
            return Err(NetworkMisuse::PortsOfHost.into());
        }
        let _lock = self.ground.lock(&sandbox)?;
        let mut sandbox = self.ground.refresh(&sandbox)?;
        let known = |publish: &&Publish| publish.inside == wanted.inside && (wanted.host == 0 || publish.host == wanted.host);
        if let Some(known) = sandbox.details.network.publish.iter().find(known).copied() {
            if sandbox.status == Status::Active {
                self.supervise(&sandbox)?;
                self.publish_missing(&sandbox);
            }
            return Ok((sandbox, vec![known]));
        }
        let bound = Published::bind(&[wanted])?;
        let numbers = bound.numbers();
        if sandbox.status == Status::Active {
            self.supervise_with(&sandbox, None)?;
            let mut control = self.control(&sandbox)?;
            for (publish, listener) in &bound.0 {
                control.publish(publish.inside, listener).map_err(|e| refused(&sandbox, &e))?;
            }
        }
        sandbox.details.network.publish.extend(&numbers);
        self.ground.store.update(&mut sandbox)?;
        if sandbox.status == Status::Active {
            self.ground.publish(&sandbox);
        }
        Ok((sandbox, numbers))
    }
}

fn bind(publish: &Publish) -> Result<(Publish, OwnedFd), EngineError> {
    let bound = TcpListener::bind((Ipv4Addr::LOCALHOST, publish.host)).and_then(|listener| Ok((listener.local_addr()?, listener)));
    let (address, listener) = bound.map_err(|error| NetworkMisuse::PortTaken { publish: *publish, error })?;
    Ok((Publish { host: address.port(), inside: publish.inside }, listener.into()))
}
