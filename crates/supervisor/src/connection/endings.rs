//! How connections end: refused, failed, cut, or by themselves. A refusal is on disk before the client learns of it.

use std::io;

use tokio::net::TcpStream;
use tokio::sync::oneshot;
use whatif_netpolicy::socks;
use whatif_types::network::{Event, EventKind, Protocol};

use super::{Connection, Manner, Stop};
use crate::answers;
use crate::relay::{end_well, reset};
use crate::verdict::Denial;

impl Connection<'_> {
    pub(crate) async fn stop(&mut self, stop: Stop) {
        match stop {
            Stop::Denied { denial, protocol } => {
                self.record_denial(EventKind::Connect, protocol, &denial).await;
                self.answer_denied(&denial).await;
            }
            Stop::Malformed(error) => {
                let denial = Denial::plain(format!("the request is malformed: {error}"));
                self.record_denial(EventKind::Connect, Protocol::Http, &denial).await;
                answers::close_with(&self.client, &answers::malformed(&error)).await;
            }
            Stop::Failed(because) => {
                let event = self.event(EventKind::Failed, Protocol::Tcp, because.clone());
                self.supervisor.log.record(Event { who: self.who.now(), ..event });
                self.answer_failed(&because).await;
            }
            Stop::Gone => reset(&self.client),
        }
    }

    pub(crate) async fn record_denial(&mut self, kind: EventKind, protocol: Protocol, denial: &Denial) {
        let who = self.who.soon().await;
        let event = self.event(kind, protocol, denial.because.clone());
        self.supervisor.log.record(Event { allowed: false, hint: denial.hint.clone(), who, ..event });
    }

    /// Whoever asks for a connection is told why it gets none. Whoever believes to have one sees it break: many a client would
    /// take a page of ours for what it has asked for, and be content.
    pub(crate) async fn answer_denied(&mut self, denial: &Denial) {
        match self.manner {
            Manner::Tunnel => {
                let page = answers::denied(&self.supervisor.sandbox, &self.host, self.port, denial);
                answers::close_with(&self.client, &page).await;
            }
            Manner::Socks => self.answer_socks(socks::Reply::NotAllowed).await,
            Manner::Connected => reset(&self.client),
        }
    }

    async fn answer_failed(&mut self, because: &str) {
        match self.manner {
            Manner::Tunnel => answers::close_with(&self.client, &answers::failed(&self.host, self.port, because)).await,
            Manner::Socks => self.answer_socks(socks::Reply::HostUnreachable).await,
            Manner::Connected => reset(&self.client),
        }
    }

    async fn answer_socks(&self, reply: socks::Reply) {
        answers::close_with(&self.client, &socks::reply(reply)).await;
    }
}

/// Lets something go on until the connection is cut; then the reason for that.
pub(crate) async fn until_cut<T>(cut: &mut oneshot::Receiver<String>, work: impl Future<Output = T>) -> Result<T, String> {
    tokio::select! {
        done = work => Ok(done),
        because = cut => Err(because.unwrap_or_default()),
    }
}

/// What goes wrong on one side is passed on to the other as a reset. Says how it ended, if not by itself.
pub(crate) fn conclude<'s>(
    outcome: Result<io::Result<()>, String>,
    client: &'s TcpStream,
    server: impl Into<Option<&'s TcpStream>>,
) -> String {
    let both = [Some(client), server.into()];
    let because = match outcome {
        Ok(Ok(())) => {
            both.into_iter().flatten().for_each(end_well);
            return String::new();
        }
        Ok(Err(error)) => in_words(&error),
        Err(because) => because,
    };
    both.into_iter().flatten().for_each(reset);
    because
}

pub(crate) fn in_words(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe => "reset".to_owned(),
        io::ErrorKind::TimedOut => "timed out".to_owned(),
        io::ErrorKind::UnexpectedEof => "broken off".to_owned(),
        _ => error.to_string(),
    }
}
