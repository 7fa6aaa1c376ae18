//! The keeper's life from birth to end: what `keeper <id> <network>` does, as PID 1 of new namespaces.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use whatif_cgroup::Meters;
use whatif_keeper::Channel;
use whatif_keeper::protocol::{Failed, PassedGroup, Reason, Reply, Request};
use whatif_keeper::server::{self, Census, Group, Parts};
use whatif_keeper::transport::Socket;
use whatif_layers::assemble::{self, Assembled, NewProc};
use whatif_sys::landlock::Reach;
use whatif_sys::overlay::Overlay;
use whatif_sys::peer;
use whatif_sys::seccomp::Filter;
use whatif_types::boot::{Boot, KeeperLimits, PROTOCOL_VERSION, Protection};
use whatif_types::{NetMode, environment};

use crate::confine::{RoomLimit, confine};
use crate::error::{KeeperError, failed, not_assembled};
use crate::join::{self, Prepared};
use crate::network::{self, Listeners};

/// Becomes the sandbox described on the birth socket, then serves it until it is told to stop.
///
/// Errors are told to whoever waits at the other end of the birth socket; if nobody does, there is nobody to tell.
///
/// `program` is what this process is executed from. `net` is known beforehand.
pub fn live(birth: OwnedFd, program: OwnedFd, net: NetMode) -> Result<(), KeeperError> {
    // Not for a program that serves files.
    rustix::io::fcntl_setfd(&program, rustix::io::FdFlags::CLOEXEC).map_err(io::Error::from)?;
    // 0. Should we fail in a way nobody thought of, whoever waits for us is told how.
    tell_of_panics(&birth)?;

    // 1. Ended children are noticed from the very first on.
    let child_signals = whatif_sys::signals::as_descriptor(&[rustix::process::Signal::CHILD.as_raw()])?;
    let _ = rustix::thread::set_name(c"whatif-keeper");
    // Looked up at first use, in a file that is closed to us later (before Linux 6.4 there is no other way).
    let _ = rustix::param::page_size();
    // Who connects later is told by the procfs outside, of which nothing else stays within our reach.
    let descriptors = peer::own_descriptors()?;

    // 2. The network is made while whoever starts us still plans the layers; so is what depends on nothing else.
    join::bound_own_namespace();
    let proc = NewProc::make().map_err(|e| not_assembled(&e));
    let made = proc.and_then(|proc| Ok((make_network(net, &proc)?, proc)));
    let calls = Filter::build(join::only_ids());

    // 3. Where we belong, and what to become.
    let mut birth = Channel::new(birth);
    let Belongings { listener, alive, ids } = Belongings::take(&mut birth)?;
    let Request::Boot { boot, prepared, bounded } = birth.receive()? else { return Err(KeeperError::NotABoot) };
    // Only if they were announced: the next descriptors may belong to a command that has arrived already.
    let mut descriptor = || birth.take_descriptor().ok_or(KeeperError::NotABoot);
    let prepared = if prepared { Some(Prepared { user: descriptor()?, holder: descriptor()? }) } else { None };

    // 4. Become it, or say what went wrong.
    let became = become_sandbox(&boot, prepared.as_ref(), made, (&descriptors, &calls));
    // It was sent meanwhile; whoever could not has gone.
    let bounds = if bounded { take_bounds(&mut birth)? } else { Bounds::default() };
    let Became { head, overlays, listeners, sockets, protection } = match became {
        Ok(became) => {
            birth.send(&Reply::Booted { version: PROTOCOL_VERSION, protection: became.protection.clone() }, &[])?;
            became
        }
        Err(failed) => {
            birth.send(&Reply::Failed(failed), &[])?;
            return Err(KeeperError::Told);
        }
    };
    drop(prepared);

    // 5. Serve.
    let has_foreign_proc = protection.borrowed.iter().any(|(view, _)| view == Path::new("/proc"));
    let foreign_proc =
        if has_foreign_proc { Some(rustix::io::fcntl_dupfd_cloexec(&descriptors, 0).map_err(io::Error::from)?) } else { None };
    let Boot { mut environment, identity, .. } = *boot;
    environment.extend(proxy_hints(listeners.port));
    let Bounds { limits, group, farewell } = bounds;
    let network = listeners.all;
    let served = server::serve(Parts {
        transport: Box::new(Socket::new(listener, &birth, descriptors)?),
        birth: Some(birth),
        child_signals,
        environment,
        limits,
        shares_uid: identity.is_shared_with_host(),
        group,
        near_head: alive,
        head,
        sockets,
        farewell,
        network,
        overlays,
        foreign_proc,
    });
    drop((ids, program));
    Ok(served?)
}

/// What a keeper has as long as it lives. Nobody else can take the locks meanwhile.
struct Belongings {
    listener: OwnedFd,
    /// Lies in the sandbox's directory.
    alive: OwnedFd,
    ids: OwnedFd,
}

impl Belongings {
    fn take(birth: &mut Channel) -> Result<Self, KeeperError> {
        let Request::Settle = birth.receive()? else { return Err(KeeperError::NotABoot) };
        let mut descriptor = || birth.take_descriptor().ok_or(KeeperError::NotABoot);
        Ok(Self { listener: descriptor()?, alive: descriptor()?, ids: descriptor()? })
    }
}

fn make_network(net: NetMode, proc: &NewProc) -> Result<Listeners, Failed> {
    if !net.is_own() {
        return Ok(Listeners::default());
    }
    join::make_network(proc).map_err(|e| failed("make the sandbox's network", &e))?;
    if net != NetMode::Filtered {
        return Ok(Listeners::default());
    }
    network::redirect().map_err(|(step, error)| Failed { reason: Reason::BootNetwork, ..failed(step, &error) })
}

/// Programs that would rather use a proxy find one; all others are redirected.
fn proxy_hints(port: Option<u16>) -> Vec<(String, String)> {
    let Some(port) = port else { return Vec::new() };
    let proxy = format!("http://127.0.0.1:{port}");
    let directly = "localhost,127.0.0.0/8,127.0.0.1,::1".to_owned();
    let hint = |name: &str| {
        let value = if name.eq_ignore_ascii_case("no_proxy") { &directly } else { &proxy };
        (name.to_owned(), value.clone())
    };
    environment::PROXIES.map(hint).to_vec()
}

#[derive(Default)]
struct Bounds {
    limits: KeeperLimits,
    group: Option<Group>,
    farewell: Option<OwnedFd>,
}

fn take_bounds(birth: &mut Channel) -> Result<Bounds, KeeperError> {
    let Request::Bounds { limits, group, farewell } = birth.receive()? else { return Err(KeeperError::NotABoot) };
    let mut descriptor = || birth.take_descriptor().ok_or(KeeperError::NotABoot);
    let group = group.map(|passed| take_group(&passed, &mut descriptor)).transpose()?;
    let farewell = if farewell { Some(descriptor()?) } else { None };
    Ok(Bounds { limits: *limits, group, farewell })
}

fn take_group(passed: &PassedGroup, descriptor: &mut dyn FnMut() -> Result<OwnedFd, KeeperError>) -> Result<Group, KeeperError> {
    let entrances = (0..passed.entrances).map(|_| descriptor()).collect::<Result<_, _>>()?;
    let meters = passed.meters.iter().map(|m| Ok((*m, descriptor()?))).collect::<Result<Vec<_>, KeeperError>>()?;
    Ok(Group { entrances, meters: Meters::new(meters), is_shared: passed.shared })
}

/// A keeper has nowhere else to say it.
fn tell_of_panics(birth: &OwnedFd) -> io::Result<()> {
    let told = rustix::io::fcntl_dupfd_cloexec(birth, 0)?;
    let told = std::sync::Mutex::new(Channel::new(told));
    std::panic::set_hook(Box::new(move |panic| {
        let message = format!("the keeper failed unexpectedly: {}", panic.to_string().replace('\n', " "));
        if let Ok(mut told) = told.lock() {
            let _ = told.send(&Reply::Failed(Failed { reason: Reason::Boot, message, errno: 0 }), &[]);
        }
    }));
    Ok(())
}

struct Became {
    protection: Protection,
    head: Option<OwnedFd>,
    overlays: Vec<Overlay>,
    listeners: Listeners,
    sockets: Option<Census>,
}

fn become_sandbox(
    boot: &Boot,
    prepared: Option<&Prepared>,
    made: Result<(Listeners, NewProc), Failed>,
    (descriptors, calls): (&OwnedFd, &Filter),
) -> Result<Became, Failed> {
    let (mut listeners, proc) = made?;
    join::join(prepared).map_err(|e| failed("enter the sandbox's namespaces", &e))?;
    network::listen_for_host(&mut listeners, &boot.reach).map_err(|e| failed("listen for a service of the host", &e))?;
    let Assembled { mut protection, overlays, underlay, project, head } =
        assemble::assemble(boot, prepared.map(|p| p.user.as_fd()), &proc).map_err(|e| not_assembled(&e))?;
    join::join_user_namespace(prepared, boot.identity).map_err(|e| failed("enter the sandbox's user namespace", &e))?;
    let sockets = if boot.counts_sockets && boot.net.is_own() { Some(Census::open()) } else { None };
    let sockets = sockets.transpose().map_err(|e| failed("count what lies in sockets", &e))?;
    let (often_used, listed) = (project.as_ref().map(AsFd::as_fd), head.as_ref().map(AsFd::as_fd));
    let reach = Reach { beneath: underlay.as_fd(), often_used, listed, read: descriptors.as_fd() };
    let with_namespaces = boot.allows_userns.then(Filter::with_namespaces);
    let (reach, calls) = with_namespaces.as_ref().map_or((Some(reach), calls), |calls| (None, calls));
    let room = match (boot.measures_head, boot.has_allotment) {
        (true, true) => RoomLimit::Exact,
        (true, false) => RoomLimit::Watched,
        (false, _) => RoomLimit::None,
    };
    let confinement = confine(boot.identity, reach, calls, room).map_err(|(step, error)| failed(step, &error))?;
    protection.landlock_abi = confinement.landlock_abi;
    Ok(Became { protection, head, overlays, listeners, sockets })
}
