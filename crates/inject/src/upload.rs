//! The way of a request from the client to the server.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use whatif_netpolicy::chunks::{ChunkError, ChunkSkimmer, Skimmed};
use whatif_netpolicy::http::Body;

/// What is read at once.
pub(crate) const PIECE: usize = 16 * 1024;

/// One direction of a stream and what was read of it but not used yet.
#[derive(Debug)]
pub(crate) struct Incoming<R> {
    pub(crate) stream: R,
    pub(crate) buffer: Vec<u8>,
}

impl<R: AsyncRead + Unpin> Incoming<R> {
    pub(crate) fn new(stream: R) -> Self {
        Self { stream, buffer: Vec::new() }
    }

    /// Reads some more; 0 at the end, which TLS tells from a connection that was cut. Nothing is lost if it is dropped meanwhile.
    pub(crate) async fn fill(&mut self) -> io::Result<usize> {
        self.buffer.reserve(PIECE);
        let limit = u64::try_from(PIECE).unwrap_or(u64::MAX);
        (&mut self.stream).take(limit).read_buf(&mut self.buffer).await
    }
}

#[derive(Debug)]
pub(crate) enum UploadError {
    /// The client broke off or its connection did.
    Client,
    /// The server takes no more; it may have answered before.
    Server,
    Chunk(ChunkError),
}

enum Framing {
    Left(u64),
    Chunked(ChunkSkimmer),
}

/// Sends a head and the body that follows it. Returns when the last byte is on its way.
pub(crate) async fn send<R, W>(
    client: &mut Incoming<R>,
    server: &mut W,
    head: &[u8],
    body: Body,
    sent: &mut u64,
) -> Result<(), UploadError>
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    write(server, head).await.map_err(|_| UploadError::Server)?;
    let mut framing = match body {
        Body::None | Body::Tunnel => return Ok(()),
        Body::Length(length) => Framing::Left(length),
        Body::Chunked => Framing::Chunked(ChunkSkimmer::new()),
    };
    loop {
        let (count, is_end) = framing.advance(&client.buffer).map_err(UploadError::Chunk)?;
        if count > 0 {
            write(server, &client.buffer[..count]).await.map_err(|_| UploadError::Server)?;
            client.buffer.drain(..count);
            *sent += u64::try_from(count).unwrap_or(u64::MAX);
        }
        if is_end {
            return Ok(());
        }
        if !matches!(client.fill().await, Ok(1..)) {
            return Err(UploadError::Client);
        }
    }
}

pub(crate) async fn write<W: AsyncWrite + Unpin>(to: &mut W, bytes: &[u8]) -> io::Result<()> {
    to.write_all(bytes).await?;
    to.flush().await
}

impl Framing {
    /// How many of these bytes belong to the body, and whether it ends there.
    fn advance(&mut self, bytes: &[u8]) -> Result<(usize, bool), ChunkError> {
        match self {
            Self::Left(left) => {
                let count = usize::try_from(*left).unwrap_or(usize::MAX).min(bytes.len());
                *left -= u64::try_from(count).unwrap_or(u64::MAX);
                Ok((count, *left == 0))
            }
            Self::Chunked(skimmer) => match skimmer.push(bytes)? {
                Skimmed::All => Ok((bytes.len(), false)),
                Skimmed::End { consumed } => Ok((consumed, true)),
            },
        }
    }
}
