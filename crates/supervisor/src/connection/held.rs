//! A connection on which the server has spoken first: what it says passes, what the client says waits until it was judged.

use std::io;
use std::pin::pin;
use std::sync::Arc;

use tokio::net::TcpStream;
use whatif_netpolicy::http::Head;
use whatif_types::network::{EventKind, Protocol};

use super::endings::until_cut;
use super::{Connection, FIRST_BYTES_PATIENCE, Stop};
use crate::connections::Open;
use crate::first_bytes;
use crate::http_relay::{self, HttpEnd};
use crate::relay::{Traffic, one_way, pass_end_on, reset, send_counted, until_end};
use crate::verdict::Denial;

impl Connection<'_> {
    pub(super) async fn carry_held(&mut self, mut open: Open, server: &TcpStream) {
        let traffic = Arc::clone(&open.traffic);
        let mut buffer = std::mem::take(&mut self.buffer);
        let outcome = match until_cut(&mut open.cut, self.held(&traffic, server, &mut buffer)).await {
            Ok(Err(HeldEnd::Denied { denial, protocol })) => {
                self.record_denial(EventKind::Connect, protocol, &denial).await;
                reset(&self.client);
                reset(server);
                return open.close("what the client says is not allowed".to_owned(), self.who.soon().await);
            }
            Ok(Err(HeldEnd::Http(end))) => Ok(Err(end)),
            Ok(Ok(())) => Ok(Ok(())),
            Err(because) => Err(because),
        };
        self.conclude_http(open, outcome, server).await;
    }

    async fn held(&self, traffic: &Traffic, server: &TcpStream, buffer: &mut Vec<u8>) -> Result<(), HeldEnd> {
        let mut down = pin!(until_end(server, &self.client, &traffic.received, &self.supervisor.pipes));
        let mut has_ended = false;
        let first = loop {
            tokio::select! {
                first = first_bytes::read(&self.client, buffer) => break first?,
                ended = &mut down, if !has_ended => {
                    ended?;
                    pass_end_on(&self.client)?;
                    has_ended = true;
                }
                // Nobody waits for ever for a client to whom the server has nothing more to say.
                () = tokio::time::sleep(FIRST_BYTES_PATIENCE), if has_ended => return Err(io::Error::from(io::ErrorKind::TimedOut).into()),
            }
        };
        let judgement = self.judge_first(first)?;
        let up = async {
            let said = std::mem::take(buffer);
            match judgement.head {
                Some(head) => Ok(http_relay::requests(self.parties(server, traffic), Some(plain(*head)?), said).await?),
                None => {
                    send_counted(server, said, traffic).await?;
                    Ok(one_way(&self.client, server, &traffic.sent, &self.supervisor.pipes).await?)
                }
            }
        };
        if has_ended {
            return up.await;
        }
        let mut up = pin!(up);
        tokio::select! {
            end = &mut up => match end {
                Ok(()) => {
                    down.await?;
                    Ok(pass_end_on(&self.client)?)
                }
                Err(HeldEnd::Http(refused @ (HttpEnd::Denied(_) | HttpEnd::Malformed(_)))) => {
                    http_relay::last_answers(server, down).await;
                    Err(refused.into())
                }
                Err(end) => Err(end),
            },
            ended = &mut down => {
                ended?;
                pass_end_on(&self.client)?;
                up.await
            }
        }
    }
}

/// After the server has spoken unasked, it is not clear any more which of its answers agrees to a change of the protocol.
fn plain(head: Head) -> Result<Head, HttpEnd> {
    match head.upgrade {
        Some(_) => Err(HttpEnd::Denied(Denial::plain("the protocol cannot be changed after the server has spoken"))),
        None => Ok(head),
    }
}

enum HeldEnd {
    Denied { denial: Denial, protocol: Protocol },
    Http(HttpEnd),
}

impl From<Stop> for HeldEnd {
    fn from(stop: Stop) -> Self {
        match stop {
            Stop::Denied { denial, protocol } => Self::Denied { denial, protocol },
            Stop::Malformed(error) => Self::Http(HttpEnd::Malformed(error)),
            Stop::Failed(because) => Self::Http(HttpEnd::Io(io::Error::other(because))),
            Stop::Gone => Self::Http(HttpEnd::Io(io::ErrorKind::ConnectionReset.into())),
        }
    }
}

impl From<io::Error> for HeldEnd {
    fn from(error: io::Error) -> Self {
        Self::Http(HttpEnd::Io(error))
    }
}

impl From<HttpEnd> for HeldEnd {
    fn from(end: HttpEnd) -> Self {
        Self::Http(end)
    }
}
