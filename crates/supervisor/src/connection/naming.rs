//! A connection to a name: its first bytes have to say the same name.

use std::io;
use std::pin::pin;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::time::timeout;
use whatif_netpolicy::http::Head;
use whatif_netpolicy::{Host, Request};
use whatif_types::network::{EventKind, Protocol};

use super::endings::{conclude, in_words, until_cut};
use super::{Connection, FIRST_BYTES_PATIENCE, Manner, Stop};
use crate::answers;
use crate::connections::{Nature, Open};
use crate::dial::Dialled;
use crate::first_bytes::{self, FirstBytes};
use crate::http_relay::{self, HttpEnd, Parties};
use crate::relay::{Traffic, end_well, one_way, reset, send_counted};
use crate::verdict::{Denial, judge};

/// First bytes that were judged, and by which rule.
struct Judgement {
    because: String,
    protocol: Protocol,
    nature: Nature,
    /// The first request of plain HTTP.
    head: Option<Box<Head>>,
}

impl Connection<'_> {
    pub(super) async fn reach_name(&mut self) -> Result<(), Stop> {
        match self.judge_opaque() {
            Ok(because) => self.either_speaks_first(because).await,
            Err(_) => self.client_speaks_first().await,
        }
    }

    /// On these ports, or by these rules, only what is known to be TLS or HTTP may pass.
    async fn client_speaks_first(&mut self) -> Result<(), Stop> {
        // A client that waits for an answer says nothing before it has one.
        let early = match self.manner {
            Manner::Connected => None,
            Manner::Tunnel | Manner::Socks => {
                let server = self.dial().await?;
                self.answer_connected().await?;
                Some(server)
            }
        };
        let first = timeout(FIRST_BYTES_PATIENCE, first_bytes::read(&self.client, &mut self.buffer)).await;
        let first = first.map_err(|_| silence())??;
        let judgement = self.judge_first(first)?;
        let server = match early {
            Some(server) => server,
            None => self.dial().await?,
        };
        self.carry_judged(judgement, server).await
    }

    /// The server may speak first, and what it says is passed on. What the client says waits until it was judged.
    async fn either_speaks_first(&mut self, because: String) -> Result<(), Stop> {
        let server = self.dial().await?;
        self.answer_connected().await?;
        let first = tokio::select! {
            biased;
            first = first_bytes::read(&self.client, &mut self.buffer) => Some(first?),
            _ = server.stream.readable() => None,
        };
        match first {
            Some(first) => {
                let judgement = self.judge_first(first)?;
                self.carry_judged(judgement, server).await
            }
            None => {
                let open = self.open(Protocol::Tcp, because, Nature::Opaque, &server)?;
                Box::pin(self.carry_held(open, &server.stream)).await;
                Ok(())
            }
        }
    }

    fn judge_opaque(&self) -> Result<String, Denial> {
        judge(&self.supervisor.rules.policy(), &Request::Opaque { target: &self.host, port: self.port })
    }

    fn judge_first(&self, first: FirstBytes) -> Result<Judgement, Stop> {
        let (target, port) = (&self.host, self.port);
        let policy = self.supervisor.rules.policy();
        let denied = |protocol: Protocol| move |denial: Denial| Stop::Denied { denial, protocol };
        match first {
            FirstBytes::Tls(hello) => {
                let because = judge(&policy, &Request::Tls { target, port, hello: &hello }).map_err(denied(Protocol::Tls))?;
                Ok(Judgement { because, protocol: Protocol::Tls, nature: Nature::Tls(hello), head: None })
            }
            FirstBytes::Http(head) => {
                let because = judge(&policy, &Request::Http { target, port, head: &head }).map_err(denied(Protocol::Http))?;
                Ok(Judgement { because, protocol: Protocol::Http, nature: Nature::Http, head: Some(head) })
            }
            FirstBytes::Opaque => {
                let because = self.judge_opaque().map_err(denied(Protocol::Tcp))?;
                Ok(Judgement { because, protocol: Protocol::Tcp, nature: Nature::Opaque, head: None })
            }
            FirstBytes::Nothing => match self.judge_opaque() {
                Ok(because) => Ok(Judgement { because, protocol: Protocol::Tcp, nature: Nature::Opaque, head: None }),
                Err(_) => Err(Stop::Gone),
            },
            FirstBytes::MalformedHttp(error) => Err(Stop::Malformed(error)),
            FirstBytes::MalformedTls(because) => {
                Err(denied(Protocol::Tls)(Denial::plain(format!("the TLS hello is malformed: {because}"))))
            }
        }
    }

    async fn carry_judged(&mut self, judgement: Judgement, server: Dialled) -> Result<(), Stop> {
        let injected = self.injected(&judgement.nature);
        let open = self.open(judgement.protocol, judgement.because, judgement.nature, &server)?;
        if let Some((injector, to)) = injected {
            Box::pin(self.carry_injected(open, injector, &to, server)).await;
            return Ok(());
        }
        match judgement.head {
            Some(head) => Box::pin(self.carry_http(open, *head, &server.stream)).await,
            None => Box::pin(self.carry(open, &server.stream)).await,
        }
        Ok(())
    }

    async fn carry_http(&mut self, mut open: Open, head: Head, server: &TcpStream) {
        let buffer = std::mem::take(&mut self.buffer);
        let traffic = Arc::clone(&open.traffic);
        let outcome = until_cut(&mut open.cut, http_relay::relay(self.parties(server, &traffic), head, buffer)).await;
        self.conclude_http(open, outcome, server).await;
    }

    /// For a proxy's client: one request, and the end.
    pub(crate) async fn carry_one_request(&mut self, because: String, head: Head, server: Dialled) -> Result<(), Stop> {
        let nature = if matches!(self.host, Host::Name(_)) { Nature::Http } else { Nature::Address };
        let injected = self.injected(&nature);
        let mut open = self.open(Protocol::Http, because, nature, &server)?;
        if let Some((injector, to)) = injected {
            self.carry_injected(open, injector, &to, server).await;
            return Ok(());
        }
        let buffer = std::mem::take(&mut self.buffer);
        let traffic = Arc::clone(&open.traffic);
        let work = http_relay::one_request(self.parties(&server.stream, &traffic), head, buffer);
        let outcome = until_cut(&mut open.cut, work).await;
        self.conclude_http(open, outcome, &server.stream).await;
        Ok(())
    }

    pub(crate) fn parties<'a>(&'a self, server: &'a TcpStream, traffic: &'a Traffic) -> Parties<'a> {
        Parties {
            client: &self.client,
            server,
            traffic,
            pipes: &self.supervisor.pipes,
            rules: &self.supervisor.rules,
            host: &self.host,
            port: self.port,
        }
    }

    /// A request that is refused ends the connection, with an answer.
    pub(crate) async fn conclude_http(&mut self, open: Open, outcome: Result<Result<(), HttpEnd>, String>, server: &TcpStream) {
        let (denial, answer) = match outcome {
            Ok(Err(HttpEnd::Denied(denial))) => {
                let answer = answers::denied(&self.supervisor.sandbox, &self.host, self.port, &denial);
                (denial, answer)
            }
            Ok(Err(HttpEnd::Malformed(error))) => {
                (Denial::plain(format!("a request is malformed: {error}")), answers::malformed(&error))
            }
            other => {
                let outcome = other.map(|done| {
                    done.map_err(|end| match end {
                        HttpEnd::Io(error) => error,
                        HttpEnd::Denied(_) | HttpEnd::Malformed(_) => io::ErrorKind::InvalidData.into(),
                    })
                });
                let because = conclude(outcome, &self.client, server);
                return open.close(because, self.who.soon().await);
            }
        };
        self.record_denial(EventKind::Request, Protocol::Http, &denial).await;
        // What came before was allowed and may still be on its way.
        end_well(server);
        open.close("a request was denied".to_owned(), self.who.soon().await);
        answers::close_with(&self.client, &answer).await;
    }

    /// The server has spoken. The client's first bytes are judged whenever they come.
    async fn carry_held(&mut self, mut open: Open, server: &TcpStream) {
        let traffic = Arc::clone(&open.traffic);
        let mut buffer = std::mem::take(&mut self.buffer);
        let outcome = until_cut(&mut open.cut, self.held(&traffic, server, &mut buffer)).await;
        match outcome {
            Ok(Err(HeldEnd::Stop(Stop::Denied { denial, protocol }))) => {
                self.record_denial(EventKind::Connect, protocol, &denial).await;
                reset(&self.client);
                reset(server);
                open.close("what the client says is not allowed".to_owned(), self.who.soon().await);
            }
            Ok(Err(HeldEnd::Stop(Stop::Malformed(error)))) => {
                self.conclude_http(open, Ok(Err(HttpEnd::Malformed(error))), server).await;
            }
            Ok(Err(HeldEnd::Stop(Stop::Failed(because)))) => {
                let because = conclude(Err(because), &self.client, server);
                open.close(because, self.who.soon().await);
            }
            Ok(Err(HeldEnd::Stop(Stop::Gone))) => {
                let because = conclude(Ok(Err(io::ErrorKind::ConnectionReset.into())), &self.client, server);
                open.close(because, self.who.soon().await);
            }
            Ok(Err(HeldEnd::Http(end))) => self.conclude_http(open, Ok(Err(end)), server).await,
            other => self.conclude_http(open, other.map(|_| Ok(())), server).await,
        }
    }

    async fn held(&self, traffic: &Traffic, server: &TcpStream, buffer: &mut Vec<u8>) -> Result<(), HeldEnd> {
        let mut down = pin!(one_way(server, &self.client, &traffic.received, &self.supervisor.pipes));
        let mut has_ended = false;
        let first = loop {
            tokio::select! {
                first = first_bytes::read(&self.client, buffer) => break first?,
                ended = &mut down, if !has_ended => {
                    ended?;
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
        tokio::try_join!(up, async { Ok::<(), HeldEnd>(down.await?) })?;
        Ok(())
    }
}

/// After the server has spoken unasked, it is not clear any more which of its answers agrees to a change of the protocol.
fn plain(head: Head) -> Result<Head, HttpEnd> {
    match head.upgrade {
        Some(_) => Err(HttpEnd::Denied(Denial::plain("the protocol cannot be changed after the server has spoken"))),
        None => Ok(head),
    }
}

fn silence() -> Stop {
    let denial = Denial::plain(format!("the client has not said what it wants within {} seconds", FIRST_BYTES_PATIENCE.as_secs()));
    Stop::Denied { denial, protocol: Protocol::Tcp }
}

/// How a connection on which the server spoke first can end.
enum HeldEnd {
    Stop(Stop),
    Http(HttpEnd),
}

impl From<io::Error> for HeldEnd {
    fn from(error: io::Error) -> Self {
        Self::Stop(Stop::Failed(in_words(&error)))
    }
}

impl From<Stop> for HeldEnd {
    fn from(stop: Stop) -> Self {
        Self::Stop(stop)
    }
}

impl From<HttpEnd> for HeldEnd {
    fn from(end: HttpEnd) -> Self {
        Self::Http(end)
    }
}
