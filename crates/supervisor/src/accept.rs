//! Takes connections in and hands each to whoever serves it.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use whatif_netpolicy::Host;
use whatif_types::network::Protocol;

use crate::connection::{Connection, Manner, Stop, WhoAsks};
use crate::connections::Connections;
use crate::original_destination::{self, canonical};
use crate::relay::{end_well, reset};
use crate::slots::Slots;
use crate::supervisor::Supervisor;
use crate::verdict::Denial;
use crate::{dial, proxy};

const DNS: u16 = 53;
/// After a failure that does not go away by itself, such as too many open files.
const PAUSE: Duration = Duration::from_millis(50);

pub(crate) fn listener(descriptor: OwnedFd) -> io::Result<TcpListener> {
    let listener = std::net::TcpListener::from(descriptor);
    listener.set_nonblocking(true)?;
    TcpListener::from_std(listener)
}

/// Hands every connection to `serve`, each with a place of its own. What exceeds the places is reset.
pub(crate) async fn each<F>(
    supervisor: Arc<Supervisor>,
    listener: TcpListener,
    places: fn(&Connections) -> &Slots,
    serve: impl Fn(Arc<Supervisor>, TcpStream) -> F,
) where
    F: Future<Output = ()> + Send + 'static,
{
    loop {
        match listener.accept().await {
            Ok((client, _)) => match places(&supervisor.connections).take() {
                Some(slot) => {
                    dial::prepare(&client, supervisor.connections.buffer());
                    // In a box of its own: the task would hold it twice.
                    let served = Box::pin(serve(Arc::clone(&supervisor), client));
                    tokio::spawn(async move {
                        served.await;
                        drop(slot);
                    });
                }
                None => reset(&client),
            },
            Err(error) if is_about_one_connection(&error) => {}
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

fn is_about_one_connection(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::Interrupted)
}

/// A connection that was redirected here, or that is for the proxy.
pub(crate) async fn redirected(supervisor: Arc<Supervisor>, client: TcpStream, listens_at: SocketAddr) {
    let (Ok(destination), Ok(from)) = (original_destination::of(&client), client.peer_addr().map(canonical)) else {
        return reset(&client);
    };
    if destination.port() == DNS {
        end_well(&client);
        let name_server = Arc::clone(&supervisor.name_server);
        let _ = Box::pin(name_server.serve_tcp(client, from)).await;
        return;
    }
    let who = WhoAsks::new(supervisor.keeper.who(from));
    if destination == canonical(listens_at) {
        return Box::pin(proxy::serve(&supervisor, client, who)).await;
    }
    let address = destination.ip();
    let held = supervisor.hold(address);
    let mut connection = Connection {
        supervisor: &supervisor,
        client,
        id: supervisor.log.next_id(),
        host: held.as_ref().map_or(Host::Address(address), |held| Host::Name(held.name().clone())),
        port: destination.port(),
        aliases: Vec::new(),
        came_by: None,
        held,
        buffer: Vec::new(),
        manner: Manner::Connected,
        who,
    };
    if connection.held.is_none() && supervisor.is_stand_in(address) {
        let denial = Denial::plain(format!("{address} stands for no name any more; the name has to be asked for again"));
        return connection.stop(Stop::Denied { denial, protocol: Protocol::Tcp }).await;
    }
    connection.run().await;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size<F: Future>(_: impl Fn(Arc<Supervisor>, TcpStream, SocketAddr) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn a_connection_takes_little_memory() {
        let size = size(redirected);
        assert!(size < 4 << 10, "{size} bytes");
    }
}
