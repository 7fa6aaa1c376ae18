//! The keeper's protocol over one stream of bytes: a pipe, a vsock connection or a serial port, which pass no descriptors.
//!
//! `frame` is what travels, `mux` many channels in one stream with credit for each, `relay` joins channels with descriptors,
//! `line` is the client's end. Both ends relay to unix sockets, so whoever speaks the protocol, on either side, sees a socket with
//! descriptors: a connection is a channel, and so is each descriptor that goes with one of its frames.

pub mod frame;
pub mod line;
mod local;
pub mod mux;
pub mod relay;

use std::io;

/// The version of the frames. Both ends name theirs first of all.
pub const VERSION: u32 = 1;

/// Why a stream ended.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    #[error("the other side closed the stream")]
    Closed,
    #[error("the other side does not speak the keeper's stream")]
    NotAStream,
    #[error("the other side speaks version {0} of the keeper's stream, not {VERSION}")]
    OtherVersion(u32),
    #[error("the other side sent a frame of the unknown kind {0}")]
    UnknownKind(u8),
    #[error("the other side sent a frame of kind {kind} with {length} bytes")]
    BadLength { kind: u8, length: usize },
    #[error("the other side sent a frame of kind {0} that makes no sense")]
    BadBody(u8),
    #[error("the other side spoke of channel {0}, which is not open")]
    NotOpen(u32),
    #[error("the other side opened channel {0} out of order")]
    OutOfOrder(u32),
    #[error("the other side has too many channels open")]
    TooManyChannels,
    #[error("the other side sent more on channel {0} than it may")]
    OverCredit(u32),
    #[error("the other side passed too much with one frame on channel {0}")]
    TooManyPassed(u32),
    #[error("the other side ended the stream: {0}")]
    Told(String),
    #[error("the stream failed")]
    Io(#[from] io::Error),
}

impl From<rustix::io::Errno> for StreamError {
    fn from(errno: rustix::io::Errno) -> Self {
        Self::Io(errno.into())
    }
}
