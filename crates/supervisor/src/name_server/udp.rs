//! Questions in datagrams.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UdpSocket;
use tokio::task::JoinSet;
use tokio::time::sleep;
use whatif_netpolicy::dns::{LONGEST_QUERY, Transport};

use super::{NameServer, Surroundings};

/// A socket that fails so often in a row, with a pause after each, does not recover.
const MOST_FAILURES: u32 = 50;
const PAUSE: Duration = Duration::from_millis(100);

impl<S: Surroundings> NameServer<S> {
    /// Answers what comes in at a socket inside. Ends only if the socket fails for good; who drops it ends all that is under
    /// way.
    pub async fn serve_udp(self: Arc<Self>, socket: UdpSocket) -> io::Error {
        let socket = Arc::new(socket);
        let mut under_way = JoinSet::new();
        // One byte more, so that what is too long can be told.
        let mut buffer = vec![0; LONGEST_QUERY + 1];
        let mut failures = 0;
        loop {
            let received = tokio::select! {
                received = socket.recv_from(&mut buffer) => received,
                Some(_) = under_way.join_next() => continue,
            };
            let (length, from) = match received {
                Ok(received) => received,
                Err(error) if failures >= MOST_FAILURES => return error,
                Err(_) => {
                    failures += 1;
                    sleep(PAUSE).await;
                    continue;
                }
            };
            failures = 0;
            // A datagram can get lost; one that there is no time for does.
            let Ok(permit) = Arc::clone(&self.questions).try_acquire_owned() else { continue };
            let (server, socket, message) = (Arc::clone(&self), Arc::clone(&socket), buffer[..length].to_vec());
            under_way.spawn(async move {
                if let Some(answer) = server.answer(&message, Transport::Udp, from).await {
                    // Who asked may be gone.
                    let _ = socket.send_to(&answer, from).await;
                }
                drop(permit);
            });
        }
    }
}
