//! A connection to a name: its first bytes have to say the same name.

use std::io;
use std::sync::Arc;

use tokio::net::TcpStream;
use tokio::time::timeout;
use whatif_netpolicy::http::Head;
use whatif_netpolicy::{Host, Request};
use whatif_types::network::{EventKind, Protocol};

use super::endings::{conclude, until_cut};
use super::{Connection, FIRST_BYTES_PATIENCE, Manner, Stop};
use crate::answers;
use crate::connections::{Nature, Open};
use crate::dial::Dialled;
use crate::first_bytes::{self, FirstBytes};
use crate::http_relay::{self, HttpEnd, Parties};
use crate::relay::{Traffic, end_well, reset, sent};
use crate::verdict::{Denial, judge};

/// First bytes that were judged, and by which rule.
pub(super) struct Judgement {
    because: String,
    protocol: Protocol,
    nature: Nature,
    /// The first request of plain HTTP.
    pub(super) head: Option<Box<Head>>,
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
        self.choose_alias(&first);
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
                self.choose_alias(&first);
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

    pub(super) fn judge_first(&self, first: FirstBytes) -> Result<Judgement, Stop> {
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

    /// Of several names that the host has written down for an address, the client says which it means.
    fn choose_alias(&mut self, first: &FirstBytes) {
        let said = match first {
            FirstBytes::Tls(hello) => hello.sni.as_ref(),
            FirstBytes::Http(head) => match head.host.as_ref().map(|authority| &authority.host) {
                Some(Host::Name(name)) => Some(name),
                _ => None,
            },
            _ => None,
        };
        if let Some(alias) = said.filter(|name| self.aliases.contains(name)) {
            self.host = Host::Name(alias.clone());
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

    /// A request that is denied ends the connection, one that nobody can make sense of with an answer.
    pub(crate) async fn conclude_http(&mut self, open: Open, outcome: Result<Result<(), HttpEnd>, String>, server: &TcpStream) {
        let (denial, answer) = match outcome {
            Ok(Err(HttpEnd::Denied(denial))) => (denial, None),
            Ok(Err(HttpEnd::Malformed(error))) => {
                (Denial::plain(format!("a request is malformed: {error}")), Some(answers::malformed(&error)))
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
        match answer {
            Some(answer) => answers::close_with(&self.client, &answer).await,
            None => {
                sent(&self.client).await;
                reset(&self.client);
            }
        }
    }
}

fn silence() -> Stop {
    let denial = Denial::plain(format!("the client has not said what it wants within {} seconds", FIRST_BYTES_PATIENCE.as_secs()));
    Stop::Denied { denial, protocol: Protocol::Tcp }
}
