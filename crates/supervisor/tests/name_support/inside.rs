//! A name server as a sandbox sees it, with real sockets, and what it recorded.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::{TcpListener, UdpSocket};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use whatif_netpolicy::rule::parse_list;
use whatif_netpolicy::synthetic::SyntheticTable;
use whatif_netpolicy::{HostName, Policy};
use whatif_supervisor::name_server::{NameServer, Surroundings};
use whatif_supervisor::resolver::Resolver;
use whatif_types::network::Event;

use super::message::{A, AAAA, PTR, query};

pub struct Office {
    pub policy: Mutex<Arc<Policy>>,
    pub names: Mutex<SyntheticTable>,
    pub events: Mutex<Vec<Event>>,
    /// What a proxy of the user's resolves.
    pub proxied: Option<HostName>,
}

impl Surroundings for Office {
    fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.policy.lock().unwrap())
    }

    fn names(&self) -> &Mutex<SyntheticTable> {
        &self.names
    }

    fn record(&self, event: Event, from: SocketAddr) {
        assert!(from.ip().is_loopback());
        self.events.lock().unwrap().push(event);
    }

    fn is_resolved_by_proxy(&self, name: &HostName) -> bool {
        self.proxied.as_ref() == Some(name)
    }
}

pub struct Inside {
    pub office: Arc<Office>,
    pub server: Arc<NameServer<Office>>,
    pub udp: SocketAddr,
    pub tcp: SocketAddr,
    tasks: Vec<JoinHandle<()>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Address(IpAddr),
    Name(Vec<u8>),
    Empty,
    Code(u8),
}

pub fn rules(allow: &str, deny: &str) -> Policy {
    let list = |text: &str| if text.is_empty() { Vec::new() } else { parse_list(text).unwrap() };
    Policy::new(list(allow), list(deny)).unwrap()
}

impl Inside {
    pub async fn start(allow: &str, deny: &str, resolver: Resolver) -> Self {
        Self::with_proxied(allow, deny, resolver, None).await
    }

    pub async fn with_proxied(allow: &str, deny: &str, resolver: Resolver, proxied: Option<HostName>) -> Self {
        let office = Arc::new(Office {
            policy: Mutex::new(Arc::new(rules(allow, deny))),
            names: Mutex::new(SyntheticTable::new("fd12:3456:789a:1::".parse().unwrap(), 64).unwrap()),
            events: Mutex::default(),
            proxied,
        });
        let server = NameServer::new(Arc::clone(&office), resolver);
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (udp, tcp) = (socket.local_addr().unwrap(), listener.local_addr().unwrap());
        let datagrams = Arc::clone(&server);
        let streams = Arc::clone(&server);
        let tasks = vec![
            tokio::spawn(async move {
                let error = datagrams.serve_udp(socket).await;
                panic!("the name server ended: {error}");
            }),
            tokio::spawn(async move {
                loop {
                    let (stream, from) = listener.accept().await.unwrap();
                    tokio::spawn(Arc::clone(&streams).serve_tcp(stream, from));
                }
            }),
        ];
        Self { office, server, udp, tcp, tasks }
    }

    pub async fn ask(&self, name: &str, kind: u16) -> Reply {
        read(kind, &self.exchange(&query(0x1234, name, kind)).await)
    }

    /// What comes back for one datagram, within some seconds.
    pub async fn exchange(&self, datagram: &[u8]) -> Vec<u8> {
        self.try_exchange(datagram, Duration::from_secs(10)).await.expect("no answer")
    }

    pub async fn try_exchange(&self, datagram: &[u8], patience: Duration) -> Option<Vec<u8>> {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        socket.connect(self.udp).await.unwrap();
        socket.send(datagram).await.unwrap();
        let mut buffer = [0; 4096];
        let length = timeout(patience, socket.recv(&mut buffer)).await.ok()?.unwrap();
        Some(buffer[..length].to_vec())
    }

    pub fn name_of(&self, reply: &Reply) -> Option<String> {
        let Reply::Address(address) = reply else { return None };
        self.office.names.lock().unwrap().name_of(*address).map(ToString::to_string)
    }

    /// The names that were recorded, and whether they were allowed.
    pub fn recorded(&self) -> Vec<(String, bool)> {
        self.office.events.lock().unwrap().iter().map(|event| (event.host.clone(), event.allowed)).collect()
    }

    pub fn set_rules(&self, allow: &str, deny: &str) {
        *self.office.policy.lock().unwrap() = Arc::new(rules(allow, deny));
    }

    /// As when the supervisor ends.
    pub fn stop(&self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        self.stop();
    }
}

/// What an answer without an extension says; the record stands at its end.
pub fn read(kind: u16, answer: &[u8]) -> Reply {
    assert_eq!(answer[2] & 0x80, 0x80, "not an answer");
    assert_eq!(answer[2] & 0x02, 0, "cut");
    match (answer[3] & 0x0f, answer[7]) {
        (0, 0) => Reply::Empty,
        (0, 1) if kind == A => Reply::Address(<[u8; 4]>::try_from(&answer[answer.len() - 4..]).unwrap().into()),
        (0, 1) if kind == AAAA => Reply::Address(<[u8; 16]>::try_from(&answer[answer.len() - 16..]).unwrap().into()),
        (0, 1) if kind == PTR => {
            let end_of_question = 12 + answer[12..].iter().position(|byte| *byte == 0).unwrap() + 5;
            Reply::Name(answer[end_of_question + 12..].to_vec())
        }
        (code, 0) => Reply::Code(code),
        other => panic!("unexpected: {other:?}"),
    }
}
