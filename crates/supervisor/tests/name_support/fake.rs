//! A name server that says whatever a test wants.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UdpSocket};
use tokio::task::JoinHandle;

use super::message::{Asked, framed};

pub struct Fake {
    asked: Arc<Mutex<Vec<(Asked, SocketAddr)>>>,
    task: JoinHandle<()>,
}

impl Fake {
    /// Sends for each question all the datagrams that `answer` makes of it.
    pub async fn udp(address: &str, answer: impl Fn(&Asked) -> Vec<Vec<u8>> + Send + 'static) -> Self {
        let socket = UdpSocket::bind((address, 53)).await.unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&asked);
        let task = tokio::spawn(async move {
            let mut buffer = [0; 4096];
            loop {
                let (length, from) = socket.recv_from(&mut buffer).await.unwrap();
                let question = Asked::read(&buffer[..length]);
                noted.lock().unwrap().push((question.clone(), from));
                for datagram in answer(&question) {
                    // Who asked may have had enough of it.
                    let _ = socket.send_to(&datagram, from).await;
                }
            }
        });
        Self { asked, task }
    }

    /// The same over TCP, with one answer; none closes the connection.
    pub async fn tcp(address: &str, answer: impl Fn(&Asked) -> Option<Vec<u8>> + Send + 'static) -> Self {
        let listener = TcpListener::bind((address, 53)).await.unwrap();
        let asked = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&asked);
        let task = tokio::spawn(async move {
            loop {
                let (mut stream, from) = listener.accept().await.unwrap();
                let mut message = vec![0; usize::from(stream.read_u16().await.unwrap())];
                stream.read_exact(&mut message).await.unwrap();
                let question = Asked::read(&message);
                noted.lock().unwrap().push((question.clone(), from));
                if let Some(answer) = answer(&question) {
                    stream.write_all(&framed(&answer)).await.unwrap();
                }
            }
        });
        Self { asked, task }
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().iter().map(|(asked, _)| asked.clone()).collect()
    }

    pub fn ports(&self) -> Vec<u16> {
        self.asked.lock().unwrap().iter().map(|(_, from)| from.port()).collect()
    }

    pub fn count(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

impl Drop for Fake {
    fn drop(&mut self) {
        self.task.abort();
    }
}
