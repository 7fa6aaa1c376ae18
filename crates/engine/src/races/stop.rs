//! Ends everything that is under way, from any thread.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::{Mutex, OnceLock, PoisonError};

use rustix::pipe::{PipeFlags, pipe_with};

use crate::EngineError;

/// Why no more is done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// That attempt passes, and one is enough.
    Won(String),
    /// Time is up.
    Budget,
    /// Somebody does not want to wait any longer; it can be resumed.
    Interrupted,
}

pub(super) struct Stop {
    why: OnceLock<Why>,
    reader: OwnedFd,
    /// Closed when it is time: then everybody who waits can read.
    writer: Mutex<Option<OwnedFd>>,
}

impl Stop {
    pub fn new() -> Result<Self, EngineError> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC).map_err(|e| EngineError::io("open", Path::new("a pipe"), e.into()))?;
        Ok(Self { why: OnceLock::new(), reader, writer: Mutex::new(Some(writer)) })
    }

    /// The first reason is the one that counts.
    pub fn set(&self, why: Why) {
        let _ = self.why.set(why);
        *self.writer.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    pub fn why(&self) -> Option<&Why> {
        self.why.get()
    }

    /// Becomes readable when it is time.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.reader.as_fd()
    }
}
