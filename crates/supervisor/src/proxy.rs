//! Clients that know they speak to a proxy: SOCKS 5, `CONNECT`, and requests with a whole URL. Decisions are the same.

mod absolute;

use std::io;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;
use whatif_netpolicy::http::{self, Body, Head, HttpState, Target};
use whatif_netpolicy::socks::{self, Greeting, SocksRequest};
use whatif_netpolicy::{Authority, Host};

use crate::answers;
use crate::connection::{Connection, Manner, WhoAsks};
use crate::first_bytes::read_some;
use crate::relay::{reset, send_all};
use crate::supervisor::Supervisor;

/// To say what is wanted.
const PATIENCE: Duration = Duration::from_secs(30);

/// To the end of the connection.
pub(crate) async fn serve(supervisor: &Supervisor, client: TcpStream, who: WhoAsks) {
    let mut buffer = Vec::new();
    let asked = match timeout(PATIENCE, asked(&client, &mut buffer)).await {
        Ok(Ok(asked)) => asked,
        Ok(Err(_)) | Err(_) => return reset(&client),
    };
    let (host, port, manner) = match asked {
        Asked::Socks { host, port } => (host, port, Manner::Socks),
        Asked::Tunnel(Authority { host, port }) => (host, port.unwrap_or(443), Manner::Tunnel),
        Asked::Absolute(head, Authority { host, port }) => {
            let connection = connection(supervisor, client, host, port.unwrap_or(80), Manner::Connected, buffer, who);
            return absolute::run(connection, *head).await;
        }
        Asked::Nonsense(answer) => return answers::close_with(&client, &answer).await,
    };
    connection(supervisor, client, host, port, manner, buffer, who).run().await;
}

enum Asked {
    Socks {
        host: Host,
        port: u16,
    },
    Tunnel(Authority),
    Absolute(Box<Head>, Authority),
    /// Gets this answer and no more.
    Nonsense(Vec<u8>),
}

fn connection<'s>(
    supervisor: &'s Supervisor,
    client: TcpStream,
    host: Host,
    port: u16,
    manner: Manner,
    buffer: Vec<u8>,
    who: WhoAsks,
) -> Connection<'s> {
    // Some clients ask for the address of a name themselves; then it is a stand-in, and the name is meant.
    let held = match &host {
        Host::Address(address) => supervisor.hold(*address),
        Host::Name(_) => None,
    };
    let host = held.as_ref().map_or(host, |held| Host::Name(held.name().clone()));
    Connection {
        supervisor,
        client,
        id: supervisor.log.next_id(),
        host,
        port,
        aliases: Vec::new(),
        came_by: None,
        held,
        buffer,
        manner,
        who,
    }
}

/// Leaves in `buffer` what does not belong to the question.
async fn asked(client: &TcpStream, buffer: &mut Vec<u8>) -> io::Result<Asked> {
    loop {
        match socks::parse_greeting(buffer) {
            Greeting::NeedMore => {}
            Greeting::Accept { consumed, reply } => {
                buffer.drain(..consumed);
                send_all(client, &reply).await?;
                return socks_request(client, buffer).await;
            }
            Greeting::Refuse { reply, .. } => return Ok(Asked::Nonsense(reply)),
            Greeting::NotSocks => match http::parse(buffer) {
                HttpState::NeedMore => {}
                HttpState::Head(head) => return Ok(http_request(*head, buffer)),
                HttpState::Malformed(error) => return Ok(Asked::Nonsense(answers::malformed(&error))),
                HttpState::Http2 | HttpState::NotHttp => return Ok(Asked::Nonsense(answers::not_a_site())),
            },
        }
        if read_some(client, buffer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

async fn socks_request(client: &TcpStream, buffer: &mut Vec<u8>) -> io::Result<Asked> {
    loop {
        match socks::parse_request(buffer) {
            SocksRequest::NeedMore => {}
            SocksRequest::Connect { host, port, consumed } => {
                buffer.drain(..consumed);
                return Ok(Asked::Socks { host, port });
            }
            SocksRequest::Refuse { reply, .. } => return Ok(Asked::Nonsense(reply.to_vec())),
        }
        if read_some(client, buffer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

fn http_request(head: Head, buffer: &mut Vec<u8>) -> Asked {
    match (&head.target, head.body) {
        (Target::Authority(authority), Body::Tunnel) => {
            let authority = authority.clone();
            buffer.drain(..head.length);
            Asked::Tunnel(authority)
        }
        (Target::Absolute { authority, .. }, _) => {
            let authority = authority.clone();
            Asked::Absolute(Box::new(head), authority)
        }
        _ => Asked::Nonsense(answers::not_a_site()),
    }
}
