//! The daemon, started as people start it, and a client that sends exactly what it is told to.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::World;
use crate::world::{binary, provide};

/// No answer takes longer.
const PATIENCE: Duration = Duration::from_secs(300);

/// Ended when dropped.
#[derive(Debug)]
pub struct Daemon {
    child: Child,
    pub address: SocketAddr,
    pub token_file: PathBuf,
    token: String,
}

/// What came of a request.
#[derive(Debug)]
pub struct Reply {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Daemon {
    /// `whatif serve` at a free port.
    #[track_caller]
    #[must_use]
    pub fn start(w: &World) -> Self {
        Self::start_with(w, &[])
    }

    #[track_caller]
    #[must_use]
    pub fn start_with(w: &World, options: &[&str]) -> Self {
        Self::provide(w);
        let log = fs::File::options().append(true).create(true).open(w.dir.join("daemon.log")).expect("the directory is ours");
        let call = w.whatif(["serve", "--listen", "127.0.0.1:0"]).args(options);
        let mut child = call.streams(Stdio::null(), Stdio::piped(), log.into()).spawn();
        let mut lines = BufReader::new(child.stdout.take().expect("it is piped")).lines();
        let mut told = |start: &str| {
            for line in lines.by_ref() {
                let line = line.expect("it prints text");
                if let Some(rest) = line.strip_prefix(start) {
                    return rest.to_owned();
                }
            }
            panic!("it did not say '{start}': {}", fs::read_to_string(w.dir.join("daemon.log")).unwrap_or_default());
        };
        let address = told("listening on http://").parse().expect("it says where");
        let token_file = PathBuf::from(told("the token is in "));
        let token = fs::read_to_string(&token_file).expect("it has made one").trim().to_owned();
        Self { child, address, token_file, token }
    }

    /// Puts `whatifd` beside the binary of a world.
    pub fn provide(w: &World) {
        let place = w.dir.join("whatifd");
        if fs::symlink_metadata(&place).is_err() {
            provide(&binary().with_file_name("whatifd"), &place);
        }
    }

    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// A request with the token.
    #[track_caller]
    pub fn call(&self, method: &str, path: &str, body: Option<&Value>) -> Reply {
        self.call_with(method, path, &[], body.map(|body| serde_json::to_vec(body).expect("it is JSON")).as_deref())
    }

    #[track_caller]
    pub fn call_with(&self, method: &str, path: &str, headers: &[(&str, &str)], body: Option<&[u8]>) -> Reply {
        let authorization = format!("Bearer {}", self.token);
        let host = self.address.to_string();
        let mut all =
            vec![("Host", host.as_str()), ("Authorization", authorization.as_str()), ("Content-Type", "application/json")];
        all.retain(|(name, _)| !headers.iter().any(|(other, _)| other.eq_ignore_ascii_case(name)));
        all.extend(headers);
        self.send(method, path, &all, body.unwrap_or_default())
    }

    /// A request with these headers and no others but its length.
    #[track_caller]
    pub fn send(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        let mut request = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\nContent-Length: {}\r\n", body.len());
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        request.push_str("\r\n");
        self.raw(&[request.as_bytes(), body].concat())
    }

    /// These bytes, as they are.
    #[track_caller]
    pub fn raw(&self, bytes: &[u8]) -> Reply {
        let mut stream = self.connect();
        // It may refuse before it has read everything.
        let _ = stream.write_all(bytes);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        Reply::parse(&answer)
    }

    #[track_caller]
    #[must_use]
    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).expect("the daemon listens");
        stream.set_read_timeout(Some(PATIENCE)).expect("it is a socket");
        stream
    }

    /// Without a chance to say anything.
    pub fn kill(mut self) {
        self.end();
    }

    /// As a service manager does. Returns the exit code.
    pub fn stop(mut self) -> Option<i32> {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::TERM).expect("it is our child");
        self.child.wait().expect("it is our child").code()
    }

    fn end(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.end();
    }
}

impl Reply {
    fn parse(answer: &[u8]) -> Self {
        let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or(answer.len());
        let head = String::from_utf8_lossy(&answer[..end]).into_owned();
        let mut lines = head.lines();
        let status = lines.next().and_then(|line| line.split(' ').nth(1)?.parse().ok()).unwrap_or(0);
        let headers: Vec<(String, String)> =
            lines.filter_map(|line| line.split_once(": ")).map(|(n, v)| (n.to_ascii_lowercase(), v.to_owned())).collect();
        let mut body = answer.get(end + 4..).unwrap_or_default().to_vec();
        if headers.iter().any(|(name, value)| name == "transfer-encoding" && value == "chunked") {
            body = unchunked(&body);
        }
        Self { status, headers, body }
    }

    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// Its JSON, if it has this status.
    #[track_caller]
    #[allow(clippy::must_use_candidate, reason = "that it has the status is often all there is to know")]
    pub fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status, status, "{}", self.text());
        if self.body.is_empty() { Value::Null } else { serde_json::from_slice(&self.body).expect("the body is JSON") }
    }

    /// The code of a refusal with this status.
    #[track_caller]
    #[must_use]
    pub fn refused(&self, status: u16) -> String {
        let problem = self.expect(status);
        for key in ["code", "message", "hints", "retryable", "details"] {
            assert!(problem.get(key).is_some(), "{key} is not in {problem}");
        }
        problem["code"].as_str().expect("it is a word").to_owned()
    }
}

fn unchunked(mut rest: &[u8]) -> Vec<u8> {
    let mut whole = Vec::new();
    while let Some(end) = rest.windows(2).position(|two| two == b"\r\n") {
        let length = usize::from_str_radix(&String::from_utf8_lossy(&rest[..end]), 16).unwrap_or(0);
        let Some(piece) = rest.get(end + 2..end + 2 + length).filter(|piece| !piece.is_empty()) else { break };
        whole.extend_from_slice(piece);
        rest = rest.get(end + 2 + length + 2..).unwrap_or_default();
    }
    whole
}
