//! Servers out there. Each remembers what it received.

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::{Authority, Outside};
use crate::wait_for;

const LONGEST_QUEUE: i32 = 4096;

#[derive(Debug, Default)]
struct Record {
    connections: usize,
    received: Vec<u8>,
}

/// Runs until the test ends.
#[derive(Clone, Debug)]
pub struct Server {
    record: Arc<Mutex<Record>>,
    address: SocketAddr,
}

impl Server {
    /// Everything it was sent, by all connections, in order.
    #[must_use]
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&self.record.lock().expect("no thread panics").received).into_owned()
    }

    /// How often somebody connected (or sent a datagram).
    #[must_use]
    pub fn connections(&self) -> usize {
        self.record.lock().expect("no thread panics").connections
    }

    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    fn tcp(address: &str, port: u16, serve: fn(TcpStream, &Self)) -> Self {
        let listener = TcpListener::bind((ip(address), port)).unwrap_or_else(|e| panic!("{address} port {port}: {e}"));
        // Of those who find no place in a short queue some believe that they are connected, and the server never hears of them.
        rustix::net::listen(&listener, LONGEST_QUEUE).expect("it is a listener");
        let server = Self { record: Arc::default(), address: listener.local_addr().expect("it is bound") };
        let shared = server.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                shared.record.lock().expect("no thread panics").connections += 1;
                let shared = shared.clone();
                std::thread::spawn(move || serve(stream, &shared));
            }
        });
        server
    }

    /// Reads once and remembers it; nothing is the end.
    fn read(&self, stream: &mut TcpStream) -> Vec<u8> {
        let mut buffer = [0; 16 << 10];
        let length = stream.read(&mut buffer).unwrap_or(0);
        self.record.lock().expect("no thread panics").received.extend_from_slice(&buffer[..length]);
        buffer[..length].to_vec()
    }
}

impl Outside {
    /// Answers every HTTP request with `HELLO` and stays connected.
    pub fn http(&self, address: &str, port: u16) -> Server {
        Server::tcp(address, port, |mut stream, server| {
            let mut pending = Vec::new();
            loop {
                let read = server.read(&mut stream);
                if read.is_empty() {
                    return;
                }
                pending.extend(read);
                while let Some(length) = request_length(&pending) {
                    pending.drain(..length);
                    if stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nHELLO\n").is_err() {
                        return;
                    }
                }
            }
        })
    }

    /// Gives back what it gets.
    pub fn echo(&self, address: &str, port: u16) -> Server {
        Server::tcp(address, port, |mut stream, server| {
            loop {
                let read = server.read(&mut stream);
                if read.is_empty() || stream.write_all(&read).is_err() {
                    return;
                }
            }
        })
    }

    /// Speaks first, then gives back what it gets.
    pub fn greeter(&self, address: &str, port: u16) -> Server {
        Server::tcp(address, port, |mut stream, server| {
            let mut alive = stream.write_all(b"220 welcome\r\n").is_ok();
            while alive {
                let read = server.read(&mut stream);
                alive = !read.is_empty() && stream.write_all(&read).is_ok();
            }
        })
    }

    /// Sends without end.
    pub fn fountain(&self, address: &str, port: u16) -> Server {
        Server::tcp(address, port, |mut stream, _| while stream.write_all(&[b'x'; 4096]).is_ok() {})
    }

    /// Remembers datagrams and gives them back.
    pub fn udp(&self, address: &str, port: u16) -> Server {
        let socket = UdpSocket::bind((ip(address), port)).unwrap_or_else(|e| panic!("{address} port {port}: {e}"));
        let server = Server { record: Arc::default(), address: socket.local_addr().expect("it is bound") };
        let shared = server.clone();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok((length, from)) = socket.recv_from(&mut buffer) {
                let mut record = shared.record.lock().expect("no thread panics");
                record.connections += 1;
                record.received.extend_from_slice(&buffer[..length]);
                let _ = socket.send_to(&buffer[..length], from);
            }
        });
        server
    }

    /// A directory as Python's own server shows it.
    pub fn files(&self, address: &str, port: u16, directory: &Path) {
        let directory = directory.to_str().expect("scratch paths are text");
        self.python(FILES, &[address, &port.to_string(), directory]);
    }

    /// The same over TLS.
    pub fn files_tls(&self, address: &str, port: u16, directory: &Path, authority: &Authority) {
        let paths = [directory, &authority.cert, &authority.key].map(|path| path.to_str().expect("scratch paths are text"));
        self.python(FILES, &[address, &port.to_string(), paths[0], paths[1], paths[2]]);
    }

    /// A TLS server that says which name it was asked for, and remembers requests: `log` has lines of `sni NAME` and of headers.
    pub fn tls(&self, address: &str, port: u16, authority: &Authority) -> PythonServer {
        let paths = [&authority.cert, &authority.key].map(|path| path.to_str().expect("scratch paths are text"));
        self.python(TLS, &[address, &port.to_string(), paths[0], paths[1]])
    }

    /// A Python program out there. It says `ready` when it is; it is killed when the test ends.
    #[track_caller]
    pub fn python(&self, program: &str, arguments: &[&str]) -> PythonServer {
        self.daemon(Command::new("/usr/bin/python3").args(["-u", "-c", program]).args(arguments))
    }

    /// Any program out there, under the same conditions.
    #[track_caller]
    pub fn daemon(&self, command: &mut Command) -> PythonServer {
        let mut others = self.python.lock().expect("no thread panics");
        // Not a pipe: what it has said before it answered somebody can be read when that one has the answer.
        let log = self.dir.join(format!("server-{}.log", others.len()));
        let file = File::create(&log).expect("the directory is ours");
        let child = command.stdin(Stdio::null()).stdout(file).spawn().expect("it is installed");
        let server = PythonServer { log, child: Arc::new(Mutex::new(Running(child))) };
        assert!(
            wait_for(Duration::from_secs(60), || server.said().contains(READY).then_some(())).is_some(),
            "a server did not start"
        );
        others.push(server.clone());
        server
    }
}

const READY: &str = "ready\n";

#[derive(Clone, Debug)]
pub struct PythonServer {
    log: PathBuf,
    child: Arc<Mutex<Running>>,
}

impl PythonServer {
    /// What it has printed since it was ready.
    #[must_use]
    pub fn log(&self) -> String {
        self.said().split_once(READY).map(|(_, later)| later.to_owned()).unwrap_or_default()
    }

    fn said(&self) -> String {
        fs::read(&self.log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
    }

    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.lock().expect("no thread panics").0.id()
    }
}

#[derive(Debug)]
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn ip(address: &str) -> IpAddr {
    address.parse().unwrap_or_else(|e| panic!("{address}: {e}"))
}

/// How long the first request in there is, with its body, once it is complete.
fn request_length(bytes: &[u8]) -> Option<usize> {
    let find = |from: usize, what: &[u8]| Some(from + bytes[from..].windows(what.len()).position(|w| w == what)? + what.len());
    let head = find(0, b"\r\n\r\n")?;
    let text = String::from_utf8_lossy(&bytes[..head]).to_ascii_lowercase();
    if text.contains("\r\ntransfer-encoding: chunked\r\n") {
        return find(head - 2, b"\r\n0\r\n\r\n");
    }
    let announced = text.lines().find_map(|line| line.strip_prefix("content-length:")?.trim().parse::<usize>().ok());
    Some(head + announced.unwrap_or(0)).filter(|length| *length <= bytes.len())
}

const FILES: &str = r#"
import http.server, os, socket, ssl, sys
address, port, directory, *tls = sys.argv[1:]
class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'
    def __init__(self, *a): super().__init__(*a, directory=directory)
    def log_message(self, form, *a): os.write(1, f"{self.headers.get('Host') if hasattr(self, 'headers') else '-'} {form % a}\n".encode())
class Server(http.server.ThreadingHTTPServer):
    address_family = socket.AF_INET6 if ':' in address else socket.AF_INET
server = Server((address, int(port)), Handler)
if tls:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*tls)
    server.socket = context.wrap_socket(server.socket, server_side=True)
print('ready')
server.serve_forever()
"#;

const TLS: &str = r#"
import os, socket, ssl, sys, threading
def say(text): os.write(1, (text + '\n').encode())  # in one piece, whoever else speaks
address, port, cert, key = sys.argv[1:]
context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(cert, key)
context.sni_callback = lambda _socket, name, _context: say(f'sni {name}')
listener = socket.create_server((address, int(port)), family=socket.AF_INET6 if ':' in address else socket.AF_INET)
def serve(raw):
    say('connection')
    try:
        with context.wrap_socket(raw, server_side=True) as stream:
            pending = b''
            while True:
                read = stream.recv(65536)
                if not read: return
                pending += read
                while b'\r\n\r\n' in pending:
                    head, pending = pending.split(b'\r\n\r\n', 1)
                    say(head.decode('latin-1').replace('\r\n', '\n'))
                    stream.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nHELLO\n')
    except OSError as error: say(f'failed {error}')
say('ready')
while True: threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"#;
