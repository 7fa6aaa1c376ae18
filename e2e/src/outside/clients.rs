//! What programs in a sandbox do with the network, and how it ended for them.

use serde_json::Value;

use super::Outside;
use crate::World;

/// One attempt to talk to somebody.
#[derive(Clone, Debug)]
pub struct Answer(pub Value);

impl Answer {
    /// What was received.
    #[must_use]
    pub fn got(&self) -> &str {
        self.0["got"].as_str().unwrap_or_default()
    }

    #[must_use]
    pub fn is_hello(&self) -> bool {
        self.got().contains("HELLO")
    }

    /// The name of the error, or nothing.
    #[must_use]
    pub fn error(&self) -> &str {
        self.0["error"].as_str().unwrap_or_default()
    }
}

/// Python with `talk(host, port, bytes)`, which returns what came of it, and `hello(host, port)`, a plain HTTP request.
pub const PRELUDE: &str = r#"
import errno, json, os, socket, sys, time
def talk(host, port, data=b'', seconds=10, until=b'HELLO'):
    got = b''
    try:
        with socket.create_connection((host, port), seconds) as s:
            if data: s.sendall(data)
            while until not in got:
                read = s.recv(65536)
                if not read: break
                got += read
        return {'got': got.decode('latin-1'), 'error': ''}
    except socket.gaierror as e: name = 'gaierror'
    except OSError as e: name = errno.errorcode.get(e.errno, type(e).__name__)
    return {'got': got.decode('latin-1'), 'error': name}
def hello(host, port, named=None, **more):
    return talk(host, port, f'GET / HTTP/1.1\r\nHost: {named or host}\r\n\r\n'.encode(), **more)
def show(value): print(json.dumps(value), flush=True)
"#;

impl Outside {
    /// A Python program with [`PRELUDE`] in a sandbox that is thrown away. It prints one JSON document.
    #[track_caller]
    pub fn try_inside(&self, w: &World, flags: &[&str], program: &str) -> Value {
        self.call_inside(w, flags, program).go().ok().json()
    }

    /// The same, not started yet.
    pub fn call_inside(&self, w: &World, flags: &[&str], program: &str) -> crate::Call {
        let program = format!("{PRELUDE}\n{program}");
        w.whatif(["run", "--rm", "--quiet"]).args(flags).args(["--", "/usr/bin/python3", "-c", &program])
    }

    /// The same in a living sandbox.
    #[track_caller]
    pub fn try_in(&self, w: &World, sandbox: &str, program: &str) -> Value {
        let program = format!("{PRELUDE}\n{program}");
        w.whatif(["exec", sandbox, "--", "/usr/bin/python3", "-c", &program]).go().ok().json()
    }

    /// A plain HTTP request to a host from a sandbox with these flags.
    #[track_caller]
    pub fn hello(&self, w: &World, flags: &[&str], host: &str, port: u16) -> Answer {
        Answer(self.try_inside(w, flags, &format!("show(hello('{host}', {port}))")))
    }

    /// The same in a living sandbox.
    #[track_caller]
    pub fn hello_in(&self, w: &World, sandbox: &str, host: &str, port: u16) -> Answer {
        Answer(self.try_in(w, sandbox, &format!("show(hello('{host}', {port}))")))
    }
}
