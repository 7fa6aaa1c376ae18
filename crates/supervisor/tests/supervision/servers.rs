//! Servers outside, each connection in a thread of its own.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use super::world::address;

#[derive(Clone, Default)]
pub struct Server {
    received: Arc<Mutex<Vec<u8>>>,
    connections: Arc<AtomicUsize>,
}

impl Server {
    /// Calls `serve` for each connection.
    pub fn start(host: &str, port: u16, serve: impl Fn(&Server, TcpStream) + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(address(host, port)).unwrap();
        rustix::net::listen(&listener, 4096).unwrap();
        let server = Self::default();
        let (theirs, serve) = (server.clone(), Arc::new(serve));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (server, serve) = (theirs.clone(), Arc::clone(&serve));
                server.connections.fetch_add(1, Ordering::SeqCst);
                let stream = stream.unwrap();
                std::thread::Builder::new().stack_size(128 << 10).spawn(move || serve(&server, stream)).unwrap();
            }
        });
        server
    }

    /// Sends back what it gets, and the end after the end.
    pub fn echo(host: &str, port: u16) -> Self {
        Self::start(host, port, |server, mut stream| {
            server.each_part(&stream, |part| stream_write(&mut stream.try_clone().unwrap(), part));
            let _ = stream.shutdown(Shutdown::Write);
            let _ = stream.read(&mut [0]);
        })
    }

    /// Answers each request it recognises with a short page.
    pub fn web(host: &str, port: u16) -> Self {
        Self::start(host, port, |server, stream| {
            let mut seen = Vec::new();
            server.each_part(&stream, |part| {
                seen.extend_from_slice(part);
                while let Some(end) = seen.windows(4).position(|w| w == b"\r\n\r\n") {
                    let head = String::from_utf8_lossy(&seen[..end]).to_ascii_lowercase();
                    seen.drain(..end + 4);
                    stream_write(&mut stream.try_clone().unwrap(), b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nHELLO");
                    if head.contains("connection: close") {
                        let _ = stream.shutdown(Shutdown::Write);
                    }
                }
            });
        })
    }

    /// Hands over what arrives until the end, and remembers it.
    pub fn each_part(&self, mut stream: &TcpStream, mut take: impl FnMut(&[u8])) {
        let mut buffer = vec![0; 64 << 10];
        while let Ok(count @ 1..) = stream.read(&mut buffer) {
            self.received.lock().unwrap().extend_from_slice(&buffer[..count]);
            take(&buffer[..count]);
        }
    }

    pub fn received(&self) -> Vec<u8> {
        self.received.lock().unwrap().clone()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.received()).into_owned()
    }

    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

fn stream_write(stream: &mut TcpStream, bytes: &[u8]) {
    let _ = stream.write_all(bytes);
}
