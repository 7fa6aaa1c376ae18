//! What all connections share.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

use whatif_inject::Injector;
use whatif_netpolicy::synthetic::{Held, SyntheticTable};
use whatif_netpolicy::{HostName, Policy};
use whatif_types::network::Event;

use crate::asks::Asks;
use crate::connections::Connections;
use crate::keeper::Keeper;
use crate::log::Log;
use crate::name_server::{NameServer, Surroundings};
use crate::pipes::Pipes;
use crate::published::Published;
use crate::resolver::Resolver;
use crate::rules::LiveRules;
use crate::secrets::Turns;
use crate::upstream::Upstream;

#[derive(Debug)]
pub(crate) struct Supervisor {
    pub(crate) sandbox: String,
    /// Whose commands the control socket takes, besides root's.
    pub(crate) started_by: u32,
    /// Our `/proc/self/fdinfo`, which tells who connects.
    pub(crate) descriptors: OwnedFd,
    pub(crate) rules: Arc<LiveRules>,
    pub(crate) log: Arc<Log>,
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) resolver: Resolver,
    pub(crate) names: Arc<Names>,
    pub(crate) name_server: Arc<NameServer<Names>>,
    pub(crate) keeper: Keeper,
    pub(crate) connections: Arc<Connections>,
    pub(crate) pipes: Pipes,
    pub(crate) asks: Asks,
    pub(crate) published: Published,
    pub(crate) injector: Option<Injector>,
    pub(crate) turns: Turns,
}

impl Supervisor {
    pub(crate) fn is_stand_in(&self, address: IpAddr) -> bool {
        self.names.table.lock().unwrap_or_else(PoisonError::into_inner).is_stand_in(address)
    }

    /// The name that an address stands for.
    pub(crate) fn hold(&self, address: IpAddr) -> Option<Held> {
        self.names.table.lock().unwrap_or_else(PoisonError::into_inner).hold(address)
    }
}

/// What the name server sees of it.
#[derive(Debug)]
pub(crate) struct Names {
    pub(crate) rules: Arc<LiveRules>,
    pub(crate) log: Arc<Log>,
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) table: Mutex<SyntheticTable>,
}

impl Surroundings for Names {
    fn policy(&self) -> Arc<Policy> {
        self.rules.policy()
    }

    fn names(&self) -> &Mutex<SyntheticTable> {
        &self.table
    }

    fn record(&self, event: Event, _from: SocketAddr) {
        self.log.record(Event { id: self.log.next_id(), ..event });
    }

    fn is_resolved_by_proxy(&self, name: &HostName) -> bool {
        self.upstream.resolves(name)
    }
}
