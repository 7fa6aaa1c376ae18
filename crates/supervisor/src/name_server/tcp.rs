//! Questions over TCP, one after the other on each connection.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::time::timeout;
use whatif_netpolicy::dns::{LONGEST_QUERY, Transport, tcp_message};

use super::{NameServer, Surroundings};

/// For a whole question to come, and for an answer to be taken.
const PATIENCE: Duration = Duration::from_secs(10);

impl<S: Surroundings> NameServer<S> {
    /// Answers what comes on one connection, until it is closed, is idle for long, or makes no sense.
    ///
    /// # Errors
    /// If the connection fails. The sandbox is at its other end, so that means nothing.
    pub async fn serve_tcp<T>(self: Arc<Self>, mut stream: T, from: SocketAddr) -> io::Result<()>
    where
        T: AsyncRead + AsyncWrite + Unpin + Send,
    {
        let Ok(_connection) = self.connections.try_acquire() else { return Ok(()) };
        let mut buffer = Vec::new();
        while let Some(message) = timeout(PATIENCE, next_message(&mut stream, &mut buffer)).await?? {
            // Whoever sends the next question before the answer waits, and the kernel makes it wait.
            let Ok(_permit) = self.questions.acquire().await else { return Ok(()) };
            let Some(answer) = self.answer(&message, Transport::Tcp, from).await else { return Ok(()) };
            timeout(PATIENCE, stream.write_all(&answer)).await??;
        }
        Ok(())
    }
}

/// `None` if the connection ends, in between or in the middle, or has lost its shape.
async fn next_message<T: AsyncRead + Unpin>(stream: &mut T, buffer: &mut Vec<u8>) -> io::Result<Option<Vec<u8>>> {
    loop {
        match tcp_message(buffer) {
            Err(_) => return Ok(None),
            Ok(Some((message, consumed))) => {
                let message = message.to_vec();
                buffer.drain(..consumed);
                return Ok(Some(message));
            }
            Ok(None) => {}
        }
        // The buffer holds at most one whole message and part of the next.
        let mut piece = [0; LONGEST_QUERY];
        match stream.read(&mut piece).await? {
            0 => return Ok(None),
            length => buffer.extend_from_slice(&piece[..length]),
        }
    }
}
