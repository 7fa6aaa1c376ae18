//! Ports inside that can be reached from outside, on listeners that somebody else has bound.

mod idle;

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::task::AbortHandle;
use tokio::time::timeout;
use whatif_types::network::{Event, EventKind, Protocol};

use crate::accept;
use crate::dial::prepare;
use crate::log::now_ms;
use crate::relay::{self, Traffic, end_well, reset};
use crate::supervisor::Supervisor;

/// Inside is near.
const PATIENCE: Duration = Duration::from_secs(5);
/// Each with a listener.
const MOST: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct Published {
    listeners: Mutex<BTreeMap<u16, Vec<Listening>>>,
}

#[derive(Debug)]
struct Listening {
    at: SocketAddr,
    accepting: AbortHandle,
}

impl Published {
    /// The ports inside and where each can be reached.
    pub(crate) fn list(&self) -> Vec<(u16, SocketAddr)> {
        self.listeners().iter().flat_map(|(inside, all)| all.iter().map(|one| (*inside, one.at))).collect()
    }

    /// Closes all listeners for this port. Connections that are open stay.
    pub(crate) fn remove(&self, inside: u16) -> bool {
        let removed = self.listeners().remove(&inside).unwrap_or_default();
        removed.iter().for_each(|one| one.accepting.abort());
        !removed.is_empty()
    }

    fn listeners(&self) -> MutexGuard<'_, BTreeMap<u16, Vec<Listening>>> {
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Begins to accept.
pub(crate) fn add(supervisor: &Arc<Supervisor>, descriptor: OwnedFd, inside: u16) -> io::Result<()> {
    let listener: TcpListener = accept::listener(descriptor)?;
    let at = listener.local_addr()?;
    let mut listeners = supervisor.published.listeners();
    if listeners.values().map(Vec::len).sum::<usize>() >= MOST {
        return Err(io::Error::other(format!("no more than {MOST} ports can be published")));
    }
    let serve = move |supervisor, client| carry_in(supervisor, client, inside);
    let accepting = tokio::spawn(accept::each(Arc::clone(supervisor), listener, |all| &all.published, serve)).abort_handle();
    listeners.entry(inside).or_default().push(Listening { at, accepting });
    Ok(())
}

/// From outside to a server inside. Who comes in is no decision of the rules, which are about what goes out.
async fn carry_in(supervisor: Arc<Supervisor>, outside: TcpStream, inside: u16) {
    let Some(server) = connect_inside(&supervisor, inside).await else {
        supervisor.log.record(nobody_listens(&supervisor, inside));
        return reset(&outside);
    };
    prepare(&server, supervisor.connections.buffer());
    let (traffic, has_half_ended) = (Traffic::default(), AtomicBool::new(false));
    let up = async {
        relay::one_way(&outside, &server, &traffic.sent, &supervisor.pipes).await?;
        has_half_ended.store(true, Ordering::Relaxed);
        Ok(())
    };
    let down = async {
        relay::gather(&server).await?;
        relay::one_way(&server, &outside, &traffic.received, &supervisor.pipes).await?;
        has_half_ended.store(true, Ordering::Relaxed);
        io::Result::Ok(())
    };
    tokio::select! {
        outcome = async { tokio::try_join!(up, down) } => if outcome.is_ok() {
            end_well(&outside);
            end_well(&server);
        },
        () = idle::is_idle(&traffic, &has_half_ended, &idle::LIMITS) => {
            reset(&outside);
            reset(&server);
        }
    }
}

/// A client cannot tell this from a network that does not work, so it is recorded.
fn nobody_listens(supervisor: &Supervisor, inside: u16) -> Event {
    Event {
        at_ms: now_ms(),
        id: supervisor.log.next_id(),
        kind: EventKind::Failed,
        protocol: Protocol::Tcp,
        host: "localhost".to_owned(),
        port: Some(inside),
        address: None,
        allowed: true,
        because: "nothing in the sandbox listens on this published port".to_owned(),
        hint: None,
        who: None,
        sent: 0,
        received: 0,
        repeats: 0,
    }
}

/// The sockets come from inside, so loopback is the sandbox's.
async fn connect_inside(supervisor: &Supervisor, port: u16) -> Option<TcpStream> {
    for (socket, address) in supervisor.keeper.sockets().await?.toward(port) {
        if let Ok(stream) = connect(socket, address).await {
            return Some(stream);
        }
    }
    None
}

async fn connect(socket: OwnedFd, to: SocketAddr) -> io::Result<TcpStream> {
    let socket = std::net::TcpStream::from(socket);
    socket.set_nonblocking(true)?;
    timeout(PATIENCE, TcpSocket::from_std_stream(socket).connect(to)).await?
}
