//! Connections to hosts for which there are secrets. They are not relayed unread: the injector puts the secrets in.

mod turns;

use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::net::TcpStream;
use tokio::time::timeout;
use whatif_inject::{Authority, Destination, Injector, Outcome, Roots, Totals, Transport};
use whatif_netpolicy::http::Head;
use whatif_netpolicy::{Host, HostName, Request};
use whatif_types::network::{EventKind, Instructions, Protocol};

use crate::connection::endings::{conclude, until_cut};
use crate::connection::{Connection, FIRST_BYTES_PATIENCE, Stop};
use crate::connections::{Nature, Open};
use crate::dial::Dialled;
use crate::first_bytes::{self, FirstBytes};
use crate::relay::{Traffic, end_well};
use crate::verdict::{Denial, judge};

pub(crate) use turns::Turns;

/// Takes the secrets out of the instructions. Reads what the user trusts, so it comes before the confinement.
pub(crate) fn injector(instructions: &mut Instructions) -> io::Result<Option<Injector>> {
    let secrets = std::mem::take(&mut instructions.secrets);
    if secrets.is_empty() {
        return Ok(None);
    }
    let roots = if instructions.roots.is_empty() { Roots::system() } else { Roots::from_pem_files(&instructions.roots) };
    let handover = instructions.authority.take().ok_or_else(|| invalid("secrets came without an authority"))?;
    let authority = Authority::from_handover(&handover).map_err(io::Error::other)?;
    Injector::with(authority, &roots.map_err(io::Error::other)?, secrets).map(Some).map_err(io::Error::other)
}

fn invalid(problem: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidInput, problem)
}

impl<'s> Connection<'s> {
    /// Where the injector is needed, if it is. What is neither TLS nor HTTP carries no secret.
    pub(crate) fn injected(&self, nature: &Nature) -> Option<(&'s Injector, Destination)> {
        let transport = match nature {
            Nature::Tls(_) => Transport::Tls,
            Nature::Http => Transport::Plain,
            Nature::Address | Nature::Opaque | Nature::Reach => return None,
        };
        let Host::Name(name) = &self.host else { return None };
        let destination = Destination { host: name.clone(), port: self.port, transport };
        self.supervisor.injector.as_ref().filter(|injector| injector.handles(&destination)).map(|injector| (injector, destination))
    }

    /// The same for a service of this machine, by what the client says first.
    pub(crate) async fn injected_on_loopback(&mut self) -> Result<Option<(&'s Injector, Destination)>, Stop> {
        let Some(injector) = self.supervisor.injector.as_ref() else { return Ok(None) };
        let Ok(host) = HostName::parse(b"localhost") else { return Ok(None) };
        let to = |transport| Destination { host: host.clone(), port: self.port, transport };
        let (plain, tls) = (to(Transport::Plain), to(Transport::Tls));
        if !injector.handles(&plain) && !injector.handles(&tls) {
            return Ok(None);
        }
        let first = timeout(FIRST_BYTES_PATIENCE, first_bytes::read(&self.client, &mut self.buffer)).await;
        let to = match first.map_err(|_| Stop::Gone)?? {
            FirstBytes::Tls(_) => tls,
            FirstBytes::Http(_) => plain,
            _ => return Ok(None),
        };
        Ok(Some((injector, to)).filter(|(injector, to)| injector.handles(to)))
    }

    /// To the end. The buffer begins with the hello or the head, which was judged.
    pub(crate) async fn carry_injected(&mut self, mut open: Open, injector: &Injector, to: &Destination, server: Dialled) {
        let buffer = std::mem::take(&mut self.buffer);
        let traffic = Arc::clone(&open.traffic);
        // What the server sees at the end is TLS's to say.
        end_well(&server.stream);
        let work = async {
            let _turn = self.supervisor.turns.next().await?;
            let client = second_handle(&self.client)?;
            injector.relay(client, buffer, to, server.stream, |head| self.permit_request(to.transport, head)).await
        };
        let because = match until_cut(&mut open.cut, work).await {
            Ok(Ok(totals)) => self.conclude_injected(to.transport, totals, &traffic).await,
            Ok(Err(error)) => conclude(Err(error.to_string()), &self.client, None),
            Err(because) => conclude(Err(because), &self.client, None),
        };
        open.close(because, self.who.soon().await);
    }

    /// Inside TLS the host was judged with the hello, and rules know no more than hosts there. For this machine's own services,
    /// which have no name here, `--reach` is the rule.
    fn permit_request(&self, transport: Transport, head: &Head) -> Result<(), String> {
        match (transport, &self.host) {
            (Transport::Tls, _) | (Transport::Plain, Host::Address(_)) => Ok(()),
            (Transport::Plain, Host::Name(_)) => {
                let request = Request::Http { target: &self.host, port: self.port, head };
                judge(&self.supervisor.rules.policy(), &request).map(drop).map_err(|denial| denial.because)
            }
        }
    }

    async fn conclude_injected(&mut self, transport: Transport, totals: Totals, traffic: &Traffic) -> String {
        traffic.sent.store(totals.sent, Ordering::Relaxed);
        traffic.received.store(totals.received, Ordering::Relaxed);
        end_well(&self.client);
        match totals.outcome {
            // Where a server wants its credential is for the user to find out, so this says what did not go there.
            Outcome::Ended => totals.left.unwrap_or_default(),
            Outcome::Failed(because) => because,
            Outcome::Refused(because) => {
                let protocol = if transport == Transport::Tls { Protocol::Tls } else { Protocol::Http };
                self.record_denial(EventKind::Request, protocol, &Denial::plain(because)).await;
                "a request was denied".to_owned()
            }
        }
    }
}

/// The injector wants a socket of its own; how the connection ends is still decided here.
fn second_handle(stream: &TcpStream) -> io::Result<TcpStream> {
    TcpStream::from_std(std::net::TcpStream::from(stream.as_fd().try_clone_to_owned()?))
}
