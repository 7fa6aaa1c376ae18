//! Between a connection, which is served by one thread, and the engine, which reads and writes on another: pieces by a channel.

use std::io::{self, Read};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::{Buf, Bytes};
use http_body_util::BodyExt;
use hyper::body::{Body as Stream, Frame};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use whatif_engine::EngineError;

/// A client that sends nothing for so long has given up.
const PATIENCE: Duration = Duration::from_secs(20);

/// A body made of what comes through a channel.
#[derive(Debug)]
pub struct Pieces(pub Receiver<Result<Bytes, EngineError>>);

impl Stream for Pieces {
    type Data = Bytes;
    type Error = EngineError;

    fn poll_frame(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, EngineError>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| piece.map(Frame::data)))
    }
}

/// What arrives in the body of a request, for somebody who waits for it.
#[derive(Debug)]
pub struct Arriving {
    pieces: Receiver<io::Result<Bytes>>,
    present: Bytes,
    is_over: bool,
}

impl Arriving {
    pub fn new(ahead: usize) -> (Sender<io::Result<Bytes>>, Self) {
        let (sender, pieces) = channel(ahead);
        (sender, Self { pieces, present: Bytes::new(), is_over: false })
    }
}

impl Read for Arriving {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.present.is_empty() && !self.is_over {
            match self.pieces.blocking_recv() {
                // An empty piece is the end. A channel that ends without one had a client that left.
                Some(Ok(piece)) => (self.is_over, self.present) = (piece.is_empty(), piece),
                Some(Err(error)) => return Err(error),
                None => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }
        let length = buffer.len().min(self.present.len());
        self.present.copy_to_slice(&mut buffer[..length]);
        Ok(length)
    }
}

/// Passes a body on. Whoever reads it may have had enough.
pub async fn arrive(mut body: Body, to: Sender<io::Result<Bytes>>) {
    loop {
        let piece = match tokio::time::timeout(PATIENCE, body.frame()).await {
            Ok(Some(Ok(frame))) => match frame.into_data() {
                Ok(data) if data.is_empty() => continue,
                Ok(data) => Ok(data),
                Err(_trailers) => continue,
            },
            Ok(None) => Ok(Bytes::new()),
            Ok(Some(Err(error))) => Err(io::Error::other(error)),
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        };
        let is_last = piece.as_ref().map_or(true, Bytes::is_empty);
        if to.send(piece).await.is_err() || is_last {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_that_breaks_off_is_not_a_whole_file() {
        let read = |pieces: Vec<io::Result<Bytes>>| {
            let (sender, mut arriving) = Arriving::new(8);
            pieces.into_iter().for_each(|piece| sender.blocking_send(piece).unwrap());
            drop(sender);
            let mut text = String::new();
            arriving.read_to_string(&mut text).map(|_| text)
        };
        assert_eq!(read(vec![Ok("ab".into()), Ok("c".into()), Ok(Bytes::new())]).unwrap(), "abc");
        assert_eq!(read(vec![Ok(Bytes::new())]).unwrap(), "");
        assert!(read(vec![Ok("ab".into())]).is_err());
        assert!(read(vec![Ok("ab".into()), Err(io::ErrorKind::TimedOut.into())]).is_err());
    }
}
