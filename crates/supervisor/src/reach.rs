//! Services of the host's own loopback that were named with `--reach`, at the same port inside.

use std::sync::Arc;

use tokio::net::TcpStream;
use whatif_netpolicy::Host;
use whatif_types::network::{Event, EventKind, Protocol};

use crate::connection::{Connection, Manner, WhoAsks};
use crate::connections::{Judged, Nature};
use crate::dial::{self, DialError};
use crate::original_destination::canonical;
use crate::relay::reset;
use crate::supervisor::Supervisor;

/// A connection that arrived at a listener inside.
pub(crate) async fn serve(supervisor: Arc<Supervisor>, client: TcpStream, port: u16) {
    let (Ok(from), Ok(arrived)) = (client.peer_addr().map(canonical), client.local_addr().map(canonical)) else {
        return reset(&client);
    };
    let mut connection = Connection {
        who: WhoAsks::new(supervisor.keeper.who(from)),
        supervisor: &supervisor,
        client,
        id: supervisor.log.next_id(),
        host: Host::Address(arrived.ip()),
        port,
        aliases: Vec::new(),
        came_by: None,
        held: None,
        buffer: Vec::new(),
        manner: Manner::Connected,
    };
    let judged = Judged { host: connection.host.clone(), port, nature: Nature::Reach, address: None };
    if let Err(denial) = judged.check(&supervisor.rules) {
        let who = connection.who.soon().await;
        let event = named(connection.event(EventKind::Connect, Protocol::Tcp, denial.because));
        supervisor.log.record(Event { allowed: false, who, ..event });
        return reset(&connection.client);
    }
    let injected = match Box::pin(connection.injected_on_loopback()).await {
        Ok(injected) => injected,
        Err(_) => return reset(&connection.client),
    };
    match dial::loopback(&supervisor, port).await {
        Ok(server) => {
            let because = format!("--reach localhost:{port}");
            let event = named(connection.event(EventKind::Connect, Protocol::Tcp, because));
            let who = connection.who.now();
            let open = supervisor.connections.open(Event { address: server.address, who, ..event }, judged);
            match injected {
                Some((injector, to)) => Box::pin(connection.carry_injected(open, injector, &to, server)).await,
                None => connection.carry(open, &server.stream).await,
            }
        }
        Err(DialError::Failed(because)) => {
            let event = connection.event(EventKind::Failed, Protocol::Tcp, because);
            supervisor.log.record(named(Event { who: connection.who.now(), ..event }));
            reset(&connection.client);
        }
        Err(DialError::Denied(_)) => reset(&connection.client),
    }
}

fn named(event: Event) -> Event {
    Event { host: "localhost".to_owned(), ..event }
}
