//! The way of one connection: may it be made, what is said first, where does it lead, and then bytes.
//!
//! ```text
//! to an address:  connect? ── dial ── relay
//! to a name:      connect? ── first bytes? ── resolve ── address? ── dial ── relay     (ports on which the client must speak first)
//!                 connect? ── resolve ── address? ── dial ── first bytes? ── relay     (others: the server may speak meanwhile)
//! ```
//! A question mark is a decision; a no is recorded and then answered. The client's bytes stay here until they were judged.

pub(crate) mod endings;
mod gone;
mod held;
mod naming;

use std::net::IpAddr;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tokio::sync::oneshot::error::TryRecvError;
use whatif_netpolicy::http::HttpError;
use whatif_netpolicy::synthetic::Held;
use whatif_netpolicy::{Host, HostName, Request};
use whatif_types::network::{Event, EventKind, Protocol, Who};

use self::endings::{conclude, until_cut};
use crate::answers;
use crate::connections::{Judged, Nature, Open};
use crate::dial::{DialError, Dialled, dial};
use crate::log::now_ms;
use crate::relay::{self, send_all, send_counted};
use crate::supervisor::Supervisor;
use crate::verdict::{Denial, judge};

/// For the first bytes, where nothing can be decided without them.
pub(crate) const FIRST_BYTES_PATIENCE: Duration = Duration::from_secs(30);
/// The line about a denial waits this long for the name of the process; the client waits as well.
const WHO_PATIENCE: Duration = Duration::from_millis(20);

/// How the client has asked, and so how it is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manner {
    /// It believes that it is connected already, or was told so.
    Connected,
    /// With `CONNECT`, and waits for the answer.
    Tunnel,
    Socks,
}

#[derive(Debug)]
pub(crate) struct Connection<'s> {
    pub(crate) supervisor: &'s Supervisor,
    pub(crate) client: TcpStream,
    pub(crate) id: u64,
    pub(crate) host: Host,
    pub(crate) port: u16,
    /// Further names it may mean; see `find_name`.
    pub(crate) aliases: Vec<HostName>,
    /// The address by which it has come then: that one is dialled and no other.
    pub(crate) came_by: Option<IpAddr>,
    /// Keeps the name's stand-ins from being given away.
    pub(crate) held: Option<Held>,
    /// What the client has sent and nobody has been given yet.
    pub(crate) buffer: Vec<u8>,
    pub(crate) manner: Manner,
    pub(crate) who: WhoAsks,
}

/// Why a connection was not made.
#[derive(Debug)]
pub(crate) enum Stop {
    Denied {
        denial: Denial,
        protocol: Protocol,
    },
    Malformed(HttpError),
    Failed(String),
    /// The client left, or there is nothing more to say to it.
    Gone,
}

impl From<DialError> for Stop {
    fn from(error: DialError) -> Self {
        match error {
            DialError::Denied(denial) => Self::Denied { denial, protocol: Protocol::Tcp },
            DialError::Failed(because) => Self::Failed(because),
        }
    }
}

impl From<std::io::Error> for Stop {
    fn from(_: std::io::Error) -> Self {
        Self::Gone
    }
}

impl Connection<'_> {
    /// To the end.
    pub(crate) async fn run(mut self) {
        if let Err(stop) = self.go().await {
            Box::pin(self.stop(stop)).await;
        }
    }

    async fn go(&mut self) -> Result<(), Stop> {
        self.find_name();
        let because = self.permit().await?;
        match &self.host {
            Host::Address(_) => self.reach_address(because).await,
            Host::Name(_) => Box::pin(self.reach_name()).await,
        }
    }

    /// Programs read `/etc/hosts` themselves and come with the address. If no rule is for that but one is for a name which the
    /// host has written down for it, the name is meant; all that holds for names holds then.
    fn find_name(&mut self) {
        let Host::Address(address) = self.host else { return };
        if self.judge_connect().is_ok() {
            return;
        }
        let policy = self.supervisor.rules.policy();
        let allows = |target: &Host| judge(&policy, &Request::Connect { target, port: self.port }).is_ok();
        let mut names = self.supervisor.resolver.written_down(address);
        names.retain(|name| allows(&Host::Name(name.clone())));
        if let Some(name) = names.first() {
            self.host = Host::Name(name.clone());
            self.aliases = names;
            self.came_by = Some(address);
        }
    }

    /// The rule that allows a connection there. If no rule speaks of it, a person may.
    pub(crate) async fn permit(&mut self) -> Result<String, Stop> {
        let outcome = match self.judge_connect() {
            Err(denial) if denial.may_ask && self.supervisor.rules.asks() => {
                if Box::pin(self.ask_a_person()).await {
                    self.judge_connect()
                } else {
                    Err(denial)
                }
            }
            other => other,
        };
        outcome.map_err(|denial| Stop::Denied { denial, protocol: Protocol::Tcp })
    }

    /// A client that gives up meanwhile takes its question with it.
    async fn ask_a_person(&self) -> bool {
        tokio::select! {
            is_allowed = self.supervisor.asks.ask(&self.host, self.port) => is_allowed,
            () = gone::is_gone(&self.client, &self.supervisor.keeper) => false,
        }
    }

    fn judge_connect(&self) -> Result<String, Denial> {
        judge(&self.supervisor.rules.policy(), &Request::Connect { target: &self.host, port: self.port })
    }

    /// Whoever allows an address allows what is there: nothing is read.
    async fn reach_address(&mut self, because: String) -> Result<(), Stop> {
        let server = self.dial().await?;
        let open = self.open(Protocol::Tcp, because, Nature::Address, &server)?;
        self.answer_connected().await?;
        self.carry(open, &server.stream).await;
        Ok(())
    }

    pub(crate) async fn dial(&self) -> Result<Dialled, Stop> {
        // Boxed, like other steps that are soon over: a connection that is only relayed should not keep room for them.
        Ok(Box::pin(dial(self.supervisor, &self.host, self.port, self.came_by)).await?)
    }

    /// Records that the connection is allowed. The rules may have changed while it was made.
    pub(crate) fn open(&mut self, protocol: Protocol, because: String, nature: Nature, server: &Dialled) -> Result<Open, Stop> {
        let judged = Judged { host: self.host.clone(), port: self.port, nature, address: server.address };
        judged.check(&self.supervisor.rules).map_err(|denial| Stop::Denied { denial, protocol })?;
        let event = Event { address: server.address, who: self.who.now(), ..self.event(EventKind::Connect, protocol, because) };
        Ok(self.supervisor.connections.open(event, judged))
    }

    pub(crate) fn event(&self, kind: EventKind, protocol: Protocol, because: String) -> Event {
        Event {
            at_ms: now_ms(),
            id: self.id,
            kind,
            protocol,
            host: self.host.to_string(),
            port: Some(self.port),
            address: None,
            allowed: true,
            because,
            hint: None,
            who: None,
            sent: 0,
            received: 0,
            repeats: 0,
        }
    }

    /// Tells a client that waits for it that its connection was made.
    pub(crate) async fn answer_connected(&mut self) -> Result<(), Stop> {
        match std::mem::replace(&mut self.manner, Manner::Connected) {
            Manner::Connected => {}
            Manner::Tunnel => send_all(&self.client, answers::TUNNEL_OPEN).await?,
            Manner::Socks => {
                let reply = whatif_netpolicy::socks::reply(whatif_netpolicy::socks::Reply::Succeeded);
                send_all(&self.client, &reply).await?;
            }
        }
        Ok(())
    }

    /// What was read so far, then all the rest, both ways and unread.
    pub(crate) async fn carry(&mut self, mut open: Open, server: &TcpStream) {
        let first = std::mem::take(&mut self.buffer);
        let work = async {
            send_counted(server, first, &open.traffic).await?;
            relay::both_ways(&self.client, server, &open.traffic, &self.supervisor.pipes).await
        };
        let outcome = until_cut(&mut open.cut, work).await;
        let because = conclude(outcome, &self.client, server);
        open.close(because, self.who.soon().await);
    }
}

/// The process inside, which the keeper is asked for meanwhile.
#[derive(Debug)]
pub(crate) struct WhoAsks {
    /// Until it has come.
    answer: Option<oneshot::Receiver<Option<Who>>>,
    known: Option<Who>,
}

impl WhoAsks {
    pub(crate) fn new(answer: oneshot::Receiver<Option<Who>>) -> Self {
        Self { answer: Some(answer), known: None }
    }

    /// If it is known by now.
    pub(crate) fn now(&mut self) -> Option<Who> {
        match self.answer.as_mut().map(oneshot::Receiver::try_recv) {
            None | Some(Err(TryRecvError::Empty)) => {}
            Some(answer) => {
                self.answer = None;
                self.known = answer.ok().flatten();
            }
        }
        self.known.clone()
    }

    pub(crate) async fn soon(&mut self) -> Option<Who> {
        if self.now().is_none()
            && let Some(mut answer) = self.answer.take()
        {
            self.known = tokio::time::timeout(WHO_PATIENCE, &mut answer).await.ok().and_then(Result::ok).flatten();
        }
        self.known.clone()
    }
}
