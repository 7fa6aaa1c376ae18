//! Plain HTTP to a name: each request is judged, and what cannot be told apart from the next request is not relayed.
//!
//! Responses pass unread, except the one that decides whether the connection becomes a WebSocket.

mod upgrade;

use std::io;
use std::pin::pin;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::timeout;
use whatif_netpolicy::chunks::{ChunkSkimmer, Skimmed};
use whatif_netpolicy::http::{self, Body, Head, HttpError, HttpState};
use whatif_netpolicy::{Host, Request};

use crate::first_bytes::read_some;
use crate::pipes::Pipes;
use crate::relay::{Traffic, both_ways, gather, one_way, pass_end_on, send_all, until_end};
use crate::rules::LiveRules;
use crate::verdict::{Denial, judge};

/// From the first byte of a head to its last.
const HEAD_PATIENCE: Duration = Duration::from_secs(30);
/// For what a server still has to say when a request was refused.
const LAST_ANSWERS_PATIENCE: Duration = Duration::from_secs(2);

/// Both sides of the connection, and what requests on it are judged by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parties<'a> {
    pub(crate) client: &'a TcpStream,
    pub(crate) server: &'a TcpStream,
    pub(crate) traffic: &'a Traffic,
    pub(crate) pipes: &'a Pipes,
    pub(crate) rules: &'a LiveRules,
    pub(crate) host: &'a Host,
    pub(crate) port: u16,
}

/// Why it ended, if not by itself.
#[derive(Debug)]
pub(crate) enum HttpEnd {
    Io(io::Error),
    Denied(Denial),
    Malformed(HttpError),
}

impl From<io::Error> for HttpEnd {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// To the end of the connection. `buffer` begins with the first head, which was judged.
pub(crate) async fn relay(parties: Parties<'_>, first: Head, mut buffer: Vec<u8>) -> Result<(), HttpEnd> {
    let Parties { client, server, traffic, pipes, .. } = parties;
    let first = match first.upgrade {
        Some(_) if upgrade::offer(parties, &first, &mut buffer).await? => {
            return Ok(both_ways(client, server, traffic, pipes).await?);
        }
        // It was sent, and the server did not agree.
        Some(_) => None,
        None => Some(first),
    };
    let mut answers = pin!(async {
        gather(server).await?;
        until_end(server, client, &traffic.received, pipes).await
    });
    let mut asking = pin!(requests(parties, first, buffer));
    tokio::select! {
        end = &mut asking => match end {
            Ok(()) => {
                answers.await?;
                Ok(pass_end_on(client)?)
            }
            Err(HttpEnd::Io(error)) => Err(HttpEnd::Io(error)),
            Err(refused) => {
                last_answers(server, answers).await;
                Err(refused)
            }
        },
        ended = &mut answers => {
            ended?;
            pass_end_on(client)?;
            asking.await
        }
    }
}

/// Answers to what was allowed before come before the answer to what was not.
pub(crate) async fn last_answers(server: &TcpStream, answers: impl Future<Output = io::Result<()>>) {
    let _ = pass_end_on(server);
    let _ = timeout(LAST_ANSWERS_PATIENCE, answers).await;
}

/// A single request, which was judged, and its answer. What the client says after it goes nowhere.
pub(crate) async fn one_request(parties: Parties<'_>, head: Head, mut buffer: Vec<u8>) -> Result<(), HttpEnd> {
    let Parties { client, server, traffic, pipes, .. } = parties;
    let up = async {
        forward(parties, &mut buffer, head.length).await?;
        forward_body(parties, &mut buffer, head.body).await?;
        loop {
            buffer.clear();
            if read_some(client, &mut buffer).await? == 0 {
                return Ok::<(), HttpEnd>(pass_end_on(server)?);
            }
        }
    };
    // The server closes after its answer.
    tokio::select! {
        refused = up => match refused {
            Ok(()) => Ok(one_way(server, client, &traffic.received, pipes).await?),
            Err(end) => Err(end),
        },
        answered = one_way(server, client, &traffic.received, pipes) => Ok(answered?),
    }
}

/// One request after the other, the first of which may have been judged already.
pub(crate) async fn requests(parties: Parties<'_>, first: Option<Head>, mut buffer: Vec<u8>) -> Result<(), HttpEnd> {
    let mut next = first;
    let mut is_first = next.is_some();
    loop {
        let head = match next.take() {
            Some(head) => head,
            None => match next_head(parties.client, &mut buffer).await? {
                Some(head) => {
                    permit(parties, &head)?;
                    head
                }
                None => return Ok(pass_end_on(parties.server)?),
            },
        };
        if head.upgrade.is_some() && !is_first {
            return Err(HttpEnd::Denied(Denial::plain("the protocol can be changed only by the first request of a connection")));
        }
        is_first = false;
        forward(parties, &mut buffer, head.length).await?;
        forward_body(parties, &mut buffer, head.body).await?;
        // One who sends thousands at once does not keep others from their turn.
        tokio::task::yield_now().await;
    }
}

fn permit(parties: Parties<'_>, head: &Head) -> Result<(), HttpEnd> {
    let request = Request::Http { target: parties.host, port: parties.port, head };
    judge(&parties.rules.policy(), &request).map(drop).map_err(HttpEnd::Denied)
}

/// `None` when the client has ended between two requests.
async fn next_head(client: &TcpStream, buffer: &mut Vec<u8>) -> Result<Option<Head>, HttpEnd> {
    if buffer.is_empty() && read_some(client, buffer).await? == 0 {
        return Ok(None);
    }
    let whole = async {
        loop {
            match http::parse(buffer) {
                HttpState::Head(head) => return Ok(Some(*head)),
                HttpState::Malformed(error) => return Err(HttpEnd::Malformed(error)),
                HttpState::Http2 | HttpState::NotHttp => return Err(HttpEnd::Malformed(HttpError::RequestLine)),
                HttpState::NeedMore => {}
            }
            if read_some(client, buffer).await? == 0 {
                return Err(HttpEnd::Malformed(HttpError::RequestLine));
            }
        }
    };
    timeout(HEAD_PATIENCE, whole).await.unwrap_or_else(|_| Err(io::Error::from(io::ErrorKind::TimedOut).into()))
}

async fn forward_body(parties: Parties<'_>, buffer: &mut Vec<u8>, body: Body) -> Result<(), HttpEnd> {
    match body {
        Body::None => Ok(()),
        Body::Length(length) => forward_length(parties, buffer, length).await,
        Body::Chunked => forward_chunks(parties, buffer).await,
        // No rule for a name allows one, and a proxy's own is answered before it comes here.
        Body::Tunnel => Err(HttpEnd::Malformed(HttpError::Target)),
    }
}

async fn forward_length(parties: Parties<'_>, buffer: &mut Vec<u8>, length: u64) -> Result<(), HttpEnd> {
    let mut left = length;
    while left > 0 {
        fill(parties.client, buffer).await?;
        let part = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        forward(parties, buffer, part).await?;
        left -= part as u64;
    }
    Ok(())
}

async fn forward_chunks(parties: Parties<'_>, buffer: &mut Vec<u8>) -> Result<(), HttpEnd> {
    let mut skimmer = ChunkSkimmer::new();
    loop {
        fill(parties.client, buffer).await?;
        // Judged before it is sent: a malformed chunk does not reach the server.
        match skimmer.push(buffer) {
            Ok(Skimmed::All) => forward(parties, buffer, buffer.len()).await?,
            Ok(Skimmed::End { consumed }) => return forward(parties, buffer, consumed).await,
            Err(_) => return Err(HttpEnd::Malformed(HttpError::Encoding)),
        }
    }
}

/// At least one byte.
async fn fill(client: &TcpStream, buffer: &mut Vec<u8>) -> Result<(), HttpEnd> {
    if buffer.is_empty() && read_some(client, buffer).await? == 0 {
        return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
    }
    Ok(())
}

async fn forward(parties: Parties<'_>, buffer: &mut Vec<u8>, count: usize) -> Result<(), HttpEnd> {
    send_all(parties.server, &buffer[..count]).await?;
    buffer.drain(..count);
    parties.traffic.sent.fetch_add(count as u64, Ordering::Relaxed);
    Ok(())
}
