//! From the instructions to the last line of the record.

use std::io;
use std::net::Ipv6Addr;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex};

use rustix::fs::{Mode, OFlags};
use whatif_inject::Injector;
use whatif_netpolicy::synthetic::{SyntheticTable, USUAL_CAPACITY};
use whatif_sys::random;
use whatif_types::limits::Cpus;
use whatif_types::network::{Instructions, Role};

use crate::allowance::Allowance;
use crate::asks::Asks;
use crate::connections::Connections;
use crate::keeper::Keeper;
use crate::log::Log;
use crate::name_server::NameServer;
use crate::pipes::Pipes;
use crate::published::{self, Published};
use crate::resolver::{Files, Resolver};
use crate::rules::LiveRules;
use crate::secrets::Turns;
use crate::supervisor::{Names, Supervisor};
use crate::upstream::Upstream;
use crate::{accept, confine, control, quota, reach, secrets};

/// Serves until the sandbox is gone. The descriptors are those the instructions speak of, in that order. `ready` is called once
/// all is set up and confined, before the first connection is accepted.
pub fn serve(mut instructions: Instructions, descriptors: Vec<OwnedFd>, ready: impl FnOnce()) -> io::Result<()> {
    let started_by = rustix::process::getuid().as_raw();
    let mut given = Given::sort(&instructions.descriptors, descriptors)?;
    let log = Arc::new(Log::new(required(given.log.take())?)?);
    let directory = required(given.directory.take())?;
    let watched = directory.try_clone()?;
    let rules = Arc::new(LiveRules::read(directory).map_err(io::Error::other)?);
    let injector = secrets::injector(&mut instructions)?;
    let descriptors = confine::raise_descriptor_limit();
    let descriptions = rustix::fs::open("/proc/self/fdinfo", OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    confine::confine(watched.as_fd(), descriptions.as_fd(), instructions.uid)?;
    drop(watched);

    // The quota is a timer, which has to be looked at often while others are busy.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().enable_time().event_interval(8).build()?;
    runtime.block_on(async {
        let (keeper, gone) = Keeper::start(required(given.keeper.take())?)?;
        let allowance = Allowance::of(instructions.limits.memory);
        let connections = Connections::new(log, allowance, descriptors);
        let supervisor = Arc::new(assemble(
            &instructions,
            Made {
                started_by,
                descriptors: descriptions,
                connections,
                rules,
                keeper,
                injector,
                turns: Turns::new(allowance.with_secrets),
            },
        )?);
        // One thread cannot use more than one processor.
        if let Some(cpus) = instructions.limits.cpus.filter(|cpus| *cpus < Cpus::whole(1)) {
            tokio::spawn(quota::keep(cpus));
        }
        drop(instructions);
        begin(&supervisor, given)?;
        ready();
        let _ = gone.await;
        supervisor.connections.finish();
        supervisor.log.finish();
        Ok(())
    })
}

/// What was made before the rest could be.
struct Made {
    started_by: u32,
    descriptors: OwnedFd,
    connections: Arc<Connections>,
    rules: Arc<LiveRules>,
    keeper: Keeper,
    injector: Option<Injector>,
    turns: Turns,
}

fn assemble(instructions: &Instructions, made: Made) -> io::Result<Supervisor> {
    let Made { started_by, descriptors, connections, rules, keeper, injector, turns } = made;
    let log = connections.log();
    let upstream = Arc::new(Upstream::new(&instructions.upstream));
    let resolver = Resolver::new(Files::default());
    let table = SyntheticTable::new(random_base()?, USUAL_CAPACITY).map_err(io::Error::other)?;
    let names = Arc::new(Names {
        rules: Arc::clone(&rules),
        log: Arc::clone(&log),
        upstream: Arc::clone(&upstream),
        table: Mutex::new(table),
    });
    Ok(Supervisor {
        sandbox: instructions.sandbox.clone(),
        started_by,
        descriptors,
        connections,
        rules,
        log,
        upstream,
        name_server: NameServer::new(Arc::clone(&names), resolver.clone()),
        resolver,
        names,
        keeper,
        pipes: Pipes::default(),
        asks: Asks::new(instructions.is_answered),
        published: Published::default(),
        injector,
        turns,
    })
}

/// Starts to accept everywhere.
fn begin(supervisor: &Arc<Supervisor>, given: Given) -> io::Result<()> {
    for descriptor in given.tcp {
        let listener = accept::listener(descriptor)?;
        let at = listener.local_addr()?;
        let serve = move |supervisor, client| accept::redirected(supervisor, client, at);
        tokio::spawn(accept::each(Arc::clone(supervisor), listener, |all| &all.outgoing, serve));
    }
    for descriptor in given.dns {
        let socket = std::net::UdpSocket::from(descriptor);
        socket.set_nonblocking(true)?;
        let socket = tokio::net::UdpSocket::from_std(socket)?;
        tokio::spawn(Arc::clone(&supervisor.name_server).serve_udp(socket));
    }
    for (port, descriptor) in given.reach {
        let serve = move |supervisor, client| reach::serve(supervisor, client, port);
        tokio::spawn(accept::each(Arc::clone(supervisor), accept::listener(descriptor)?, |all| &all.outgoing, serve));
    }
    for (inside, descriptor) in given.published {
        published::add(supervisor, descriptor, inside)?;
    }
    if let Some(descriptor) = given.control {
        tokio::spawn(control::serve(Arc::clone(supervisor), control::listener(descriptor)?));
    }
    Ok(())
}

/// A private network that nothing else uses: its 56 free bits are drawn by lot.
fn random_base() -> io::Result<Ipv6Addr> {
    let mut octets = [0_u8; 16];
    random::fill(&mut octets[..8])?;
    octets[0] = 0xfd;
    Ok(octets.into())
}

/// The descriptors by what they are.
#[derive(Debug, Default)]
struct Given {
    keeper: Option<OwnedFd>,
    control: Option<OwnedFd>,
    log: Option<OwnedFd>,
    directory: Option<OwnedFd>,
    tcp: Vec<OwnedFd>,
    dns: Vec<OwnedFd>,
    reach: Vec<(u16, OwnedFd)>,
    published: Vec<(u16, OwnedFd)>,
}

impl Given {
    fn sort(roles: &[Role], descriptors: Vec<OwnedFd>) -> io::Result<Self> {
        if roles.len() != descriptors.len() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "there are not as many descriptors as the instructions say"));
        }
        let mut given = Self::default();
        for (role, descriptor) in roles.iter().zip(descriptors) {
            match role {
                Role::Keeper => given.keeper = Some(descriptor),
                Role::Control => given.control = Some(descriptor),
                Role::Log => given.log = Some(descriptor),
                Role::Directory => given.directory = Some(descriptor),
                Role::Tcp => given.tcp.push(descriptor),
                Role::Dns => given.dns.push(descriptor),
                Role::Reach { port } => given.reach.push((*port, descriptor)),
                Role::Published { inside } => given.published.push((*inside, descriptor)),
            }
        }
        Ok(given)
    }
}

fn required(descriptor: Option<OwnedFd>) -> io::Result<OwnedFd> {
    descriptor.ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "a descriptor is missing from the instructions"))
}
