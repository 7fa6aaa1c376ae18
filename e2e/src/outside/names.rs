//! A small name server that remembers what it was asked. Names it was not told about do not exist.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{IpAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::{Arc, Mutex};

/// Where a system's own forwarder often is.
pub(super) const ADDRESS: &str = "127.0.0.53";
const A: u16 = 1;
const AAAA: u16 = 28;

type Answers = Vec<Vec<IpAddr>>;

#[derive(Debug, Default)]
struct State {
    /// Name to one set of addresses after the other.
    zone: BTreeMap<String, Answers>,
    /// How often a name was asked for, per kind of question: both kinds get the same answer before the next one is due.
    turns: BTreeMap<(String, u16), usize>,
    asked: Vec<String>,
}

#[derive(Clone, Debug)]
pub(super) struct NameServer(Arc<Mutex<State>>);

impl NameServer {
    pub fn start() -> Self {
        let server = Self(Arc::default());
        let socket = UdpSocket::bind((ADDRESS, 53)).expect("nobody else is here");
        let listener = TcpListener::bind((ADDRESS, 53)).expect("nobody else is here");
        let (udp, tcp) = (server.clone(), server.clone());
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok((length, from)) = socket.recv_from(&mut buffer) {
                if let Some(answer) = udp.answer(&buffer[..length]) {
                    let _ = socket.send_to(&answer, from);
                }
            }
        });
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let _ = tcp.over_tcp(stream);
            }
        });
        server
    }

    pub fn set(&self, name: &str, answers: &[&[&str]]) {
        let parse = |text: &&str| text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
        let answers = answers.iter().map(|set| set.iter().map(parse).collect()).collect();
        self.0.lock().expect("no thread panics").zone.insert(name.to_owned(), answers);
    }

    pub fn asked(&self) -> Vec<String> {
        self.0.lock().expect("no thread panics").asked.clone()
    }

    fn over_tcp(&self, mut stream: TcpStream) -> std::io::Result<()> {
        let mut length = [0; 2];
        while stream.read_exact(&mut length).is_ok() {
            let mut question = vec![0; usize::from(u16::from_be_bytes(length))];
            stream.read_exact(&mut question)?;
            let Some(answer) = self.answer(&question) else { return Ok(()) };
            stream.write_all(&u16::try_from(answer.len()).unwrap_or(0).to_be_bytes())?;
            stream.write_all(&answer)?;
        }
        Ok(())
    }

    fn answer(&self, message: &[u8]) -> Option<Vec<u8>> {
        let (name, kind, end) = question(message)?;
        let mut state = self.0.lock().expect("no thread panics");
        state.asked.push(format!("{} {name}", kind_name(kind)));
        let turn = state.turns.entry((name.clone(), kind)).or_default();
        let at = std::mem::replace(turn, *turn + 1);
        let sets = state.zone.get(&name);
        let addresses = sets.and_then(|sets| sets.get(at.min(sets.len().saturating_sub(1)))).cloned().unwrap_or_default();
        let fitting: Vec<&IpAddr> = addresses.iter().filter(|a| if a.is_ipv4() { kind == A } else { kind == AAAA }).collect();
        let code = if sets.is_some() { 0 } else { 3 };

        let mut answer = message.get(..2)?.to_vec();
        // A response, recursion wanted and available.
        answer.extend([0x81, 0x80 | code, 0, 1, 0, u8::try_from(fitting.len()).ok()?, 0, 0, 0, 0]);
        answer.extend(message.get(12..end)?);
        for address in fitting {
            // The name is the one in the question; class IN; no time to live.
            answer.extend([0xc0, 12]);
            answer.extend(kind.to_be_bytes());
            answer.extend([0, 1, 0, 0, 0, 0]);
            match address {
                IpAddr::V4(v4) => answer.extend([&[0, 4][..], &v4.octets()].concat()),
                IpAddr::V6(v6) => answer.extend([&[0, 16][..], &v6.octets()].concat()),
            }
        }
        Some(answer)
    }
}

/// The name in lower case, the kind, and where the question ends.
fn question(message: &[u8]) -> Option<(String, u16, usize)> {
    let (mut at, mut labels) = (12, Vec::new());
    loop {
        let length = usize::from(*message.get(at)?);
        let label = message.get(at + 1..at + 1 + length)?;
        at += 1 + length;
        if length == 0 {
            break;
        }
        labels.push(label.escape_ascii().to_string().to_ascii_lowercase());
    }
    let kind = u16::from_be_bytes(message.get(at..at + 2)?.try_into().ok()?);
    Some((labels.join("."), kind, at + 4))
}

fn kind_name(kind: u16) -> String {
    match kind {
        A => "A".to_owned(),
        AAAA => "AAAA".to_owned(),
        16 => "TXT".to_owned(),
        other => format!("TYPE{other}"),
    }
}
