//! The way of an answer from the server to the client.

use tokio::io::{AsyncRead, AsyncWrite};

use crate::response::{self, Framing, ResponseError};
use crate::upload::{Incoming, write};

/// What the connection is good for after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    AnotherRequest,
    Nothing,
    /// Both sides speak something else from here on.
    Switched,
}

#[derive(Debug)]
pub(crate) enum DownloadError {
    Client,
    /// The server broke off.
    Server,
    Malformed(ResponseError),
    /// It changes the protocol though nobody asked.
    Switches,
}

/// What the request was, as far as it matters for its answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) is_head: bool,
    pub(crate) is_websocket: bool,
}

/// Passes interim answers and the final one on.
pub(crate) async fn receive<R, W>(
    server: &mut Incoming<R>,
    client: &mut W,
    asked: Asked,
    received: &mut u64,
) -> Result<After, DownloadError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    loop {
        let head = loop {
            match response::parse(&server.buffer, asked.is_head).map_err(DownloadError::Malformed)? {
                Some(head) => break head,
                None if !matches!(server.fill().await, Ok(1..)) => return Err(DownloadError::Server),
                None => {}
            }
        };
        if head.status == 101 && !asked.is_websocket {
            return Err(DownloadError::Switches);
        }
        pass(server, client, head.length, received).await?;
        match head.status {
            101 => return Ok(After::Switched),
            100..=199 => {}
            _ => {
                body(server, client, head.framing, received).await?;
                // What the server says out of turn must not become the answer to a later request.
                let is_clean = head.keeps && server.buffer.is_empty();
                return Ok(if is_clean { After::AnotherRequest } else { After::Nothing });
            }
        }
    }
}

async fn body<R, W>(server: &mut Incoming<R>, client: &mut W, mut framing: Framing, received: &mut u64) -> Result<(), DownloadError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    loop {
        let (count, is_end) = framing.advance(&server.buffer).map_err(DownloadError::Malformed)?;
        pass(server, client, count, received).await?;
        if is_end {
            return Ok(());
        }
        match server.fill().await {
            Ok(1..) => {}
            Ok(0) if matches!(framing, Framing::UntilClose) => return Ok(()),
            _ => return Err(DownloadError::Server),
        }
    }
}

async fn pass<R, W>(server: &mut Incoming<R>, client: &mut W, count: usize, received: &mut u64) -> Result<(), DownloadError>
where
    W: AsyncWrite + Unpin,
{
    if count > 0 {
        write(client, &server.buffer[..count]).await.map_err(|_| DownloadError::Client)?;
        server.buffer.drain(..count);
        *received += u64::try_from(count).unwrap_or(u64::MAX);
    }
    Ok(())
}
