//! The way of an answer from the server to the client.

use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use crate::mask::{Masker, Part};
use crate::response::{self, Framing, ResponseError};
use crate::upload::{Incoming, write};

/// The longest secret, cut into chunks of a few bytes each.
pub(crate) const MOST_HELD: usize = 256 * 1024;
/// A server that says nothing for so long may be waiting for an answer, so nothing is held back any longer. Shorter than what
/// people notice, longer than most pauses within one message.
pub(crate) const QUIET: Duration = Duration::from_millis(100);

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

/// Passes interim answers and the final one on, without the secrets in them.
pub(crate) async fn receive<R, W>(
    server: &mut Incoming<R>,
    client: &mut W,
    asked: Asked,
    masker: &mut Masker<'_>,
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
        masker.push(Part::Text, &server.buffer[..head.length]);
        masker.finish();
        server.buffer.drain(..head.length);
        pass(masker, client, received).await?;
        match head.status {
            101 => return Ok(After::Switched),
            100..=199 => {}
            _ => {
                body(server, client, head.framing, masker, received).await?;
                // What the server says out of turn must not become the answer to a later request.
                let is_clean = head.keeps && server.buffer.is_empty();
                return Ok(if is_clean { After::AnotherRequest } else { After::Nothing });
            }
        }
    }
}

async fn body<R, W>(
    server: &mut Incoming<R>,
    client: &mut W,
    mut framing: Framing,
    masker: &mut Masker<'_>,
    received: &mut u64,
) -> Result<(), DownloadError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    loop {
        let advanced = framing.advance(&server.buffer, |part, bytes| masker.push(part, bytes));
        let (count, mut is_end) = advanced.map_err(DownloadError::Malformed)?;
        server.buffer.drain(..count);
        if !is_end {
            pass(masker, client, received).await?;
            if masker.held() > MOST_HELD {
                return Err(DownloadError::Malformed(ResponseError::TooScattered));
            }
            match more(server, client, masker, received).await? {
                Ok(1..) => {}
                Ok(0) if matches!(framing, Framing::UntilClose) => is_end = true,
                _ => {
                    // Half of an answer is what the client gets without a relay in between.
                    masker.release();
                    let _ = pass(masker, client, received).await;
                    return Err(DownloadError::Server);
                }
            }
        }
        if is_end {
            masker.finish();
            return pass(masker, client, received).await;
        }
    }
}

/// Waits for more from the server. What is held back is passed on if that takes long.
async fn more<R, W>(
    server: &mut Incoming<R>,
    client: &mut W,
    masker: &mut Masker<'_>,
    received: &mut u64,
) -> Result<io::Result<usize>, DownloadError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    if masker.held() > 0 {
        if let Ok(filled) = timeout(QUIET, server.fill()).await {
            return Ok(filled);
        }
        masker.release();
        pass(masker, client, received).await?;
    }
    Ok(server.fill().await)
}

async fn pass<W>(masker: &mut Masker<'_>, client: &mut W, received: &mut u64) -> Result<(), DownloadError>
where
    W: AsyncWrite + Unpin,
{
    let ready = masker.ready();
    let count = ready.len();
    if count > 0 {
        write(client, ready).await.map_err(|_| DownloadError::Client)?;
        masker.pass(count);
        *received += u64::try_from(count).unwrap_or(u64::MAX);
    }
    Ok(())
}
